"""A run goes from the call to its result: settings are checked, the graph is cut, the workers are started."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from halowire.errors import InputError, NotFiniteError, WorkerError, bugs_kept
from halowire.files import written_to
from halowire.graph import Graph, dataset_name, is_dataset, read_npy
from halowire.inputs import read_json
from halowire.launch import Place, folder_locked, launched, refuse_crowd, refuse_missing_means, run_folder, run_workers
from halowire.partitioning import fingerprint, read_manifest, read_shard
from halowire.report import Console
from halowire.training import (
    PREDICTIONS,
    Config,
    Job,
    Run,
    Situation,
    bring_back,
    check_format,
    cut_for,
    earlier_run_kept,
    finished,
    graph_sizes,
    holds_parts,
    is_shards,
    load_for,
    mesh_of,
    newest_checkpoint,
    recipe_config,
    refuse,
    refuse_edge_tensors,
    refuse_other_cut,
    refuse_other_job,
    refuse_other_sizes,
    refuse_untrainable,
    set_aside,
    worker_error,
    write_predictions,
)
from halowire.worker import predict_worker, train_worker


@dataclass(frozen=True)
class RunOptions:
    """Options beside the settings: what to do with an earlier run in the folder, after a crash, and on the console."""

    resume: bool = False
    overwrite: bool = False
    max_restarts: int = 0
    quiet: bool = False
    tensorboard: bool = False
    table: bool = True


def train_run(
    graph: Any,
    workers: int | None,
    recipe: str,
    out: str | Path | None,
    settings: Mapping[str, Any],
    options: RunOptions,
) -> Run:
    """Train the model of ``recipe`` and ``settings`` on ``graph``; all is checked before the first file is written."""
    config = recipe_config(recipe).replace(settings)
    refuse(config)
    workers = worker_count(workers, graph, config, options.max_restarts)
    if options.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise InputError("tensorboard is not installed: pip install 'halowire[report]', or leave --tensorboard out")
    name = graph_name(graph)
    run = run_folder(out, f"{name}-{recipe}", options.resume, options.overwrite)
    shards = Path(graph) if is_shards(graph) else run / "shards"
    job = Job(
        run, name, graph_source(graph), shards, workers, config, options.resume, options.quiet, options.tensorboard,
        options.table,
    )  # fmt: skip
    if is_shards(graph):
        refuse_other_cut(shards, mesh_of(config, workers).parts, config, recipe_config(recipe))
    if not launched():
        refuse_missing_means(config.device, config.transport, workers)
    with bugs_kept(run, Place.here().rank), ExitStack() as held:
        return finished(job, _train(job, partial(_prepare, job, graph, options.overwrite, held), options.max_restarts))


def _train(job: Job, prepare: Callable[[bytes], None], max_restarts: int) -> dict[str, Any]:
    """Train in this worker, or in workers that are started here; returns the summary."""
    if launched():
        return train_worker(job, prepare)
    prepare(b"")
    try:
        run_workers(job.workers, ["train", str(job.run)], max_restarts)
    except (WorkerError, NotFiniteError, KeyboardInterrupt) as error:
        raise worker_error(job, error) from None
    summary: dict[str, Any] = read_json(job.run / "summary.json")
    return summary


def predict_run(folder: Path, target: Path, device: str | None = None) -> None:
    """Write the predictions of the run in ``folder`` to the file ``target``, on its own device or on ``device``."""
    check_format(target)
    job = replace(Job.read(folder), quiet=True)
    if device is not None:
        job = job.on_device(device)
    if job.config.task.kind == "link" and target.suffix == ".csv":
        raise InputError("a run of links gives rows to score pairs with, no classes; give a name that ends in .npy")
    if not holds_parts(job.shards, job.parts):
        found = read_manifest(job.shards)["num_parts"]
        raise InputError(
            f"{job.shards} holds {found} shards, but the run has {job.parts} parts: a resume with another number of "
            "workers was interrupted; resume the run first"
        )
    if job.own_model:
        if device is not None:
            raise InputError("halowire.fit left the predictions of your own model in the run; leave --device out")
        _write_kept_predictions(job, target)
        return
    if newest_checkpoint(folder) is None:
        raise InputError(f"run {folder} has no checkpoint yet, so there is nothing to predict with; train it first")
    if not launched():
        refuse_missing_means(job.config.device, job.config.transport, job.workers)
        run_workers(job.workers, ["predict", str(folder), str(target), job.config.device])
        return
    if Place.here().size != job.workers:
        raise InputError(
            f"run {folder} was trained by {job.workers} workers, but {Place.here().size} were started; "
            f"start {job.workers}"
        )
    predict_worker(job, target)


def worker_count(workers: int | None, graph: Any, config: Config, max_restarts: int = 0) -> int:
    """Number of workers: those that a launcher started, else ``workers``, else one for each cell of the mesh."""
    started = Place.here().size if launched() else workers
    if started is None:
        started = read_manifest(graph)["num_parts"] * max(1, config.mesh.stages) if is_shards(graph) else 1
    if workers is not None and workers != started:
        raise InputError(
            f"--workers is {workers}, but the launcher started {started}; leave --workers out under torchrun"
        )
    if started < 1:
        raise InputError(f"--workers is {started}; at least one worker is needed")
    if not launched():
        refuse_crowd(started)
    if max_restarts < 0:
        raise InputError(f"--max-restarts is {max_restarts}; it must be at least 0")
    if max_restarts and launched():
        raise InputError("--max-restarts is for workers that halowire starts; give it to torchrun instead")
    refuse(config, Situation(mesh_of(config, int(started))))
    return int(started)


def graph_name(graph: Any) -> str:
    """The name of the graph in reports and run folders."""
    if isinstance(graph, Graph):
        return graph.name
    if is_shards(graph):
        return str(read_manifest(graph)["graph"])
    if isinstance(graph, str) and is_dataset(graph):
        return dataset_name(graph)
    if isinstance(graph, str | Path):
        return Path(str(graph).partition(":")[0]).name.partition(".")[0] or "graph"
    return "graph"


def graph_source(graph: Any) -> str:
    """Where the graph was read from; a file is given by its whole path, which holds in any working folder."""
    if not isinstance(graph, str | Path):
        return graph_name(graph)
    return str(Path(graph).absolute()) if Path(graph).exists() else str(graph)


def _prepare(job: Job, graph: Any, overwrite: bool, held: ExitStack, first: bytes) -> None:
    """Make the run folder ready for the workers: set an earlier run aside, cut the graph, write `config.json`.

    The folder is locked, and an earlier run that was set aside stays at hand, until ``held`` is closed. Shards that
    have the fingerprint ``first`` are those of the first machine, and stay.
    """
    console = Console(quiet=job.quiet or Place.here().rank > 0)
    held.enter_context(folder_locked(job.run, console.warn))
    bring_back(job.run)
    if job.resume:
        refuse_other_job(job, graph)
    again = job.resume or Place.here().restarts > 0
    kept = again and holds_parts(job.shards, job.parts)
    cut = not (is_shards(graph) or kept or (first and fingerprint(job.shards) == first))
    mesh = mesh_of(job.config, job.workers)
    loaded = load_for(graph, job.config) if cut else None
    if loaded is not None:
        refuse_untrainable(loaded, job.config.task.kind == "link")
        refuse_edge_tensors(loaded.edge_tensors)
        mesh.refuse_impossible(job.config.model.layers, loaded.num_nodes // mesh.parts)
        if again:
            refuse_other_sizes(job, graph_sizes(loaded))
    if overwrite and not again:
        held.enter_context(earlier_run_kept(job.run))
        set_aside(job.run, shards=cut)
    if loaded is not None:
        cut_for(loaded, mesh.parts, job.shards, job.config, console)
    with written_to(job.run):
        job.run.mkdir(parents=True, exist_ok=True)
        job.write()


def _write_kept_predictions(job: Job, target: Path) -> None:
    """Write the predictions that `fit` left in the run folder, because only the user's program has the model's code."""
    if not (job.run / PREDICTIONS).exists():
        raise InputError(
            f"run {job.run} has no predictions yet, and only halowire.fit can make those of your own model; finish the "
            "run there with resume=True"
        )
    if Place.here().rank > 0:
        return
    values = torch.from_numpy(read_npy(job.run / PREDICTIONS))
    shards = [read_shard(job.shards, part) for part in range(job.workers)]
    # Of a graph of several node types, the nodes of the learnt type come first, and only they are predicted.
    expected = read_json(job.run / "summary.json").get("predicted_nodes", shards[0].num_nodes)
    if values.dim() != 2 or len(values) != expected:
        raise InputError(
            f"{job.run / PREDICTIONS} holds {list(values.shape)} numbers, expected a row for each of "
            f"{expected} nodes; finish the run again with halowire.fit and resume=True"
        )
    ids = torch.empty(shards[0].num_nodes, dtype=torch.int64)
    for shard in shards:
        ids[shard.rows] = shard.ids
    write_predictions(values, ids[:expected], shards[0].multi_label, target, shards[0].regression)
