"""A worker process joins the others, reads its shard, and trains, fits the user's own model, or predicts.

Its arguments are ``train RUN``, ``fit RUN FOLDER``, ``predict RUN FILE DEVICE``, ``roundtrip`` or ``prove``; the
launcher starts it as ``python -m halowire.worker``, and a single worker runs in the user's own process.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import nn

import halowire
from halowire.errors import (
    INTERRUPTED,
    LateError,
    TrainingError,
    WorkerError,
    bugs_kept,
    explain,
    system_error,
)
from halowire.events import plain
from halowire.files import write_json, written_whole
from halowire.kernels import kernels_in_use, stream_key, why_twins
from halowire.launch import (
    Place,
    device_words,
    joined,
    lock_shared,
    measure_pairs,
    prepare_together,
    set_threads,
    stop_wish,
    tell_launcher,
    twins_by_rank,
)
from halowire.output import flush_output, prepare_output
from halowire.partitioning import Shard, read_links, read_manifest, read_shard
from halowire.proving import prove_worker
from halowire.pyg import HandOver, own_facts, own_runner, read_data
from halowire.report import Console, write_report, write_tensorboard
from halowire.schedules import Mesh
from halowire.training import (
    ETHERNET,
    LOOPBACK,
    PREDICTIONS,
    Decoder,
    Found,
    GraphParallel,
    Hooks,
    Job,
    LinkTask,
    Runner,
    Staged,
    Surroundings,
    Trainer,
    agree,
    agreed,
    best_weights,
    dot_product,
    estimate,
    find_checkpoint,
    forget_earlier,
    free_memory,
    gather_predictions,
    gather_words,
    job_facts,
    least,
    mesh_of,
    parse_weights,
    pipelined,
    predict,
    refuse_other_counts,
    refuse_too_large,
    trained_part,
    write_predictions,
)
from halowire.wire import Transport

FITS = "check of the memory"


def main() -> None:
    """Do one worker's share of the work; the launcher prints an error once for all workers."""
    prepare_output()
    try:
        code = run(sys.argv[1:])
    except Exception as error:
        found = explain(error)
        if found is None:
            tell_launcher(str(_own_error(error)))
            raise
        code, message = found
        if not tell_launcher(message, code, isinstance(error, LateError)):
            print(f"error: {message}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        code = INTERRUPTED
    leave(code)


def run(words: list[str]) -> int:
    """Do what the arguments ``words`` say; return the exit code."""
    verb, *rest = words
    if verb == "roundtrip":
        roundtrip_worker()
        return 0
    if verb == "prove":
        prove_worker()
        return 0
    job = Job.read(Path(rest[0]))
    # A model of the user's own may fail in the user's code, whose traceback the user needs to see.
    with nullcontext() if verb == "fit" else bugs_kept(job.run, Place.here().rank):
        if verb == "predict":
            predict_worker(replace(job, quiet=True).on_device(rest[2]), Path(rest[1]))
            return 0
        summary = train_worker(job) if verb == "train" else fit_worker(job, Path(rest[1]))
        return INTERRUPTED if summary["status"] == "stopped" else 0


def leave(code: int) -> NoReturn:
    """End this process with ``code`` at once: a Gloo thread that lets go of a tensor later aborts the process."""
    flush_output()
    os._exit(code)


def _own_error(error: Exception) -> WorkerError:
    """The message and the place of an error in the user's code or in halowire, for the process that prints it."""
    frames = traceback.extract_tb(error.__traceback__)
    libraries = ("site-packages", "<string>", "<frozen", str(Path(halowire.__file__).parent))
    own = [frame for frame in frames if not any(name in frame.filename for name in libraries)]
    place = own[-1] if own else frames[-1]
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return WorkerError(
        f"worker {Place.here().rank} failed with {words} ({place.filename}, line {place.lineno}, in {place.name}); "
        "its traceback is printed above"
    )


def train_worker(job: Job, prepare: Callable[[bytes], None] | None = None) -> dict[str, Any]:
    """Train this worker's part of ``job``; return the summary.

    ``prepare`` makes the run folder ready, once per machine; it is given if that was not done before the workers
    started, see :func:`prepare_together`.
    """
    place = Place.here()
    threads = set_threads(job.config.threads, place)
    console = Console(quiet=job.quiet or place.rank > 0)
    with joined(job.config.device, *job.joining) as (transport, network, device), stop_wish() as wish:
        agree(job_facts(job, transport.size, device, prepare is not None), transport)
        if prepare is not None:
            prepare_together(job, prepare, place, transport)
        console.line(f"workers     {transport.size} on {device_words(device)}, threads of each: {threads}; {network}")
        _say_kernels(device, transport, console)
        goes_on = job.resume or place.restarts > 0
        whole = read_part(job, transport)
        part = read_part(job, transport, train=True) if job.config.task.inductive else whole
        part = trained_part(part, job.config)
        spare = None
        if device.type != "cpu":
            twins = kernels_in_use(device) == "torch"
            needed = estimate(part, whole, job.config, mesh_of(job.config, transport.size), twins)
            agreed(lambda: refuse_too_large(needed, device, place.rank, console.warn), transport, FITS)
            spare = max(0, free_memory(device) - needed.total)
        found = find_checkpoint(job.run, transport, console.warn if place.rank == 0 else _silent) if goes_on else None
        runner = _runner(job, part, whole, transport, device, found, spare, console.line)
        trainer = Trainer(runner, job.config, transport, job.run)
        if goes_on:
            trainer.resume(found)
            _say_where(trainer, place, console)
        with _begun(job, place, transport):
            summary = _train(job, trainer, console, wish)
            if place.rank == 0:
                write_results(job, summary, console)
    return summary


def fit_worker(job: Job, folder: Path) -> dict[str, Any]:
    """Train the user's model in ``folder`` on this worker's part of ``job``, and predict; return the summary."""
    place = Place.here()
    set_threads(job.config.threads, place)
    console = Console(quiet=job.quiet or place.rank > 0)
    given = HandOver.read(folder)
    with joined(job.config.device, *job.joining) as (transport, network, device), stop_wish() as wish:
        agree(job_facts(job, transport.size, device, cuts=False), transport)
        if device.type != "cpu":
            console.line(f"workers     {transport.size} on {device_words(device)}; {network}")
        _say_kernels(device, transport, console)
        # Dropout of a PyG model draws from torch's generator, so its stream differs by worker, not from run to run.
        torch.manual_seed(stream_key(job.config.seed, 0, 0, transport.rank) >> 1)
        part = read_part(job, transport)
        if device.type != "cpu":
            needed = least(part, given.model)
            agreed(lambda: refuse_too_large(needed, device, place.rank, console.warn), transport, FITS)
        data = read_data(folder, part, transport, device)
        decoder = given.decoder.to(device) if isinstance(given.decoder, nn.Module) else given.decoder
        links = link_task(job, part, transport, device, decoder)
        own = given.loss, given.inputs, links, given.codec, given.node_weights
        runner = own_runner(given.model, data, job.config, *own, console.line)
        trainer = Trainer(runner, job.config, transport, job.run)
        if job.resume or place.restarts > 0:
            trainer.resume(warn=console.warn if place.rank == 0 else _silent)
            _say_where(trainer, place, console)
        with _begun(job, place, transport):
            summary = _train(job, trainer, console, wish) | {"model": type(given.model).__name__}
            summary |= own_facts(given.model, runner, job.config)
            if given.codec is not None:
                summary |= {"codec": type(given.codec).__name__}
            if trainer.progress.best_weights:
                runner.model.load_state_dict(trainer.progress.best_weights)
            found = gather_predictions(trainer.logits(), runner.shard, transport)
            if found is not None:
                learnt = found[0][: data.num_learnt]
                summary |= {} if len(learnt) == len(found[0]) else {"predicted_nodes": len(learnt)}
                with written_whole(job.run / PREDICTIONS, learnt.nbytes) as temporary:
                    np.save(temporary, learnt.numpy(), allow_pickle=False)
                write_results(job, summary, console)
    return summary


@contextmanager
def _begun(job: Job, place: Place, transport: Transport) -> Iterator[None]:
    """The run begins: all workers are ready for the first epoch, so an earlier run in the folder is deleted now.

    A folder that can no longer be written to is a failure from here on, not a mistake of the user's.
    """
    transport.barrier("start of the run")
    if place.local_rank == 0:
        forget_earlier(job.run)
    with lock_shared(job.run):
        try:
            yield
        except OSError as error:
            raise TrainingError(system_error(error)) from error


def _train(job: Job, trainer: Trainer, console: Console, wish: Callable[[], bool]) -> dict[str, Any]:
    """Train until the end or the ``wish`` to stop, and show progress; return the summary with the cut's quality."""
    title = f"{job.graph} {job.config.recipe}"
    with console.progress(job.config.epochs, title, trainer.runner.task.metric) as progress:
        first = trainer.transport.rank == 0
        summary = trainer.run(Hooks(progress, wish, warn=console.warn if first else _silent))
    quality, savings = read_manifest(job.shards).get("quality"), trainer.runner.savings.facts()
    return summary | {"partition": quality, "savings": savings}


def predict_worker(job: Job, out: Path) -> None:
    """Write the predictions of a finished run."""
    place = Place.here()
    set_threads(job.config.threads, place)
    with joined(job.config.device, *job.joining) as (transport, _, device):
        agree(job_facts(job, transport.size, device, cuts=False), transport)
        shard = read_part(job, transport)
        if device.type != "cpu":
            mesh, twins = mesh_of(job.config, transport.size), kernels_in_use(device) == "torch"
            needed, warn = estimate(shard, shard, job.config, mesh, twins).of_predictions(), Console(quiet=True).warn
            agreed(lambda: refuse_too_large(needed, device, place.rank, warn), transport, FITS)
        runner = _runner(job, shard, shard, transport, device)
        found = gather_predictions(predict(runner, _best_weights(job, transport)), runner.shard, transport)
        runner.peers.settle()

        def write() -> None:
            if found is not None:
                write_predictions(*found, shard.multi_label, out, shard.regression)

        agreed(write, transport, "writing of the predictions")


def _best_weights(job: Job, transport: Transport) -> dict[str, torch.Tensor]:
    """The best weights of a run, which rank 0 reads: other machines need not have them."""
    where, console = "reading of the weights", Console(quiet=True)
    first = transport.rank == 0
    data = agreed(lambda: best_weights(job.run, console.warn) if first else b"", transport, where)
    return parse_weights(transport.broadcast_bytes(data, where))


def roundtrip_worker(deadline: float = 60.0) -> None:
    """Measure the round trip between every pair of workers; rank 0 prints the result."""
    with joined(torch.device("cpu"), deadline) as (transport, network, _):
        pairs = measure_pairs(transport)
        if transport.rank == 0:
            print(f"network         {network}")
            for first, second, seconds, speed in pairs:
                print(f"round trip      rank {first} - rank {second}: {1e6 * seconds:.0f} us, {speed / 1e6:.0f} MB/s")


def _say_where(trainer: Trainer, place: Place, console: Console) -> None:
    epoch = trainer.progress.epoch
    text = f"going on after epoch {epoch}" if epoch else "no checkpoint yet: starting from the beginning"
    if trainer.recut:
        text += f"; {trainer.recut}: cut again; the wire starts afresh"
    if place.restarts:
        if place.rank == 0:
            console.warn(f"a worker failed; all were started again ({place.restarts}), {text}")
    else:
        console.line(f"resume      {text}")


def _say_kernels(device: torch.device, transport: Transport, console: Console) -> None:
    """Say once, for all workers, which GPUs have to do without kernels of their own, and why."""
    if device.type == "cpu":
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what follows says it, and in one line
        kernels = kernels_in_use(device)
    mine = why_twins(device) or "" if kernels == "torch" else ""
    for why, where in twins_by_rank(gather_words(mine, transport, "kernels of all workers", account=None)).items():
        if transport.rank == 0:
            console.warn(f"torch's operations stand in for halowire's kernels {where or f'on {device.type}'}: {why}")


def _silent(text: str) -> None:
    """Say nothing: rank 0 warns for all."""


def _runner(
    job: Job,
    train: Shard,
    whole: Shard,
    transport: Transport,
    device: torch.device,
    found: Found | None = None,
    spare: int | None = None,
    tell: Callable[[str], None] = _silent,
) -> Runner:
    """The runner that the settings ask for; ``found`` is the checkpoint to go on from, ``spare`` free device memory."""
    config, mesh = job.config, mesh_of(job.config, transport.size)
    if pipelined(config, mesh):
        return Staged(train, whole, config, mesh, transport, _split_before(found, job, mesh), device, tell)
    place, task = Place.here(), link_task(job, whole, transport, device)
    one_machine = place.local_size == place.size and transport.machines.count == 1
    around = Surroundings(LOOPBACK if one_machine else ETHERNET, on_cpu=device.type == "cpu", spare=spare)
    return GraphParallel(train, whole, config, transport, device, task, around=around, tell=tell)


def _split_before(found: Found | None, job: Job, mesh: Mesh) -> list[int]:
    """How the run split its layers before, if it goes on with as many stages; costs measured again could differ."""
    if found is None or job.config.mesh.split:
        return []
    split = [int(count) for count in found.manifest.settings.get("split", ())]
    return split if len(split) == mesh.stages else []


def link_task(
    job: Job, shard: Shard, transport: Transport, device: torch.device, decoder: Decoder | None = None
) -> LinkTask | None:
    """The task on this worker's pairs if ``job`` learns links; None if it learns labels or values of nodes."""
    if job.config.task.kind != "link":
        return None
    links = agreed(lambda: read_links(job.shards, shard.rank), transport, "reading of the pairs")
    return LinkTask(links, shard, job.config, transport, device, decoder or dot_product)


def read_part(job: Job, transport: Transport, train: bool = False) -> Shard:
    """This worker's shard of ``job``; with ``train``, its shard of the training subgraph."""
    part = mesh_of(job.config, transport.size).place(transport.rank)[1]
    shard = agreed(lambda: read_shard(job.shards, part, train=train), transport, "reading of the shards")
    refuse_other_counts(shard, transport)
    return shard


def write_results(job: Job, summary: dict[str, Any], console: Console) -> None:
    """Write `summary.json` and the report, and print the final table."""
    write_json(job.run / "summary.json", plain(summary))
    page = write_report([job.run], job.run / "report.html")
    if job.tensorboard:
        write_tensorboard(job.run)
    if job.table:
        console.summary_table(summary, page)


if __name__ == "__main__":
    main()
