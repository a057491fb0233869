"""The public functions: load, partition, train, predict. The command line calls the same ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from halowire import partition as parts
from halowire.graph import Graph, load
from halowire.kernels import InputError
from halowire.launch import FAILED, INTERRUPTED, Place, launched, run_local
from halowire.nn.model import exchanged_widths
from halowire.partition.manifest import is_shard_folder
from halowire.report import Console
from halowire.train.config import Config, check_config
from halowire.train.job import Job
from halowire.train.loop import TrainingError
from halowire.train.predict import check_format
from halowire.train.recipes import recipe_config
from halowire.worker import predict_worker, train_worker


@dataclass(frozen=True)
class Run:
    """A trained model: its folder and the numbers of its `summary.json`."""

    folder: Path
    summary: dict[str, Any]

    @property
    def report(self) -> Path:
        """The HTML page of the run."""
        return self.folder / "report.html"


class Interrupted(KeyboardInterrupt):
    """Training was stopped by a signal, after a checkpoint."""


def partition(
    graph: Graph | str | Path,
    num_parts: int,
    out: str | Path,
    method: str = "metis",
    seed: int = 0,
    inductive: bool = False,
    undirected: bool = False,
    quiet: bool = True,
) -> Path:
    """Cut a graph into ``num_parts`` shards in the folder ``out``, ready for :func:`train`.

    Args:
        graph: a graph, a built-in name, a file or a folder (see :func:`load`).
        num_parts: number of parts, one per worker.
        out: folder for `manifest.json` and one folder per part.
        method: ``metis``, ``random``, ``range`` or ``stream`` (one pass, for graphs METIS cannot hold).
        seed: seed of the partitioner.
        inductive: also cut the subgraph of the training nodes, for inductive training.
        undirected: add the reverse of every edge first.
        quiet: do not print the quality report.
    """
    config = Config().replace({"partition.method": method, "seed": seed, "task.inductive": inductive})
    return _cut(load(graph, undirected=undirected), num_parts, Path(out), config, Console(quiet=quiet))


def train(
    graph: Any,
    workers: int | None = None,
    recipe: str = "exact",
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    max_restarts: int = 0,
    quiet: bool = False,
    tensorboard: bool = False,
) -> Run:
    """Train a model on a graph spread over ``workers``; works in a script, in a notebook and under torchrun.

    Args:
        graph: a :class:`Graph`, a PyG ``Data``, a built-in name (``"debian"``), a file, or a folder of shards.
        workers: number of local workers; under torchrun the number of processes it started.
        recipe: a named, complete setting.
        out: the run folder; by default a new one under ``runs/``.
        settings: overrides with the names of the command line, for example ``{"model.hidden": 128, "epochs": 50}``.
        resume: go on from the newest checkpoint in ``out``.
        overwrite: delete an earlier run in ``out``.
        max_restarts: how often crashed local workers are started again, from the newest checkpoint.
        quiet: print only warnings and errors.
        tensorboard: write TensorBoard files too.
    """
    config = recipe_config(recipe).replace(settings or {})
    check_config(config)
    workers = _worker_count(workers, graph, config)
    name = _graph_name(graph)
    run = _run_folder(out, f"{name}-{recipe}", resume, overwrite)
    shards = Path(graph) if _is_shards(graph) else run / "shards"
    source = str(graph) if isinstance(graph, str | Path) else name
    job = Job(run, name, source, shards, workers, config, resume, quiet, tensorboard)
    console = Console(quiet=quiet or Place.here().rank > 0)

    def prepare() -> None:
        run.mkdir(parents=True, exist_ok=True)
        if not _is_shards(graph) and not (resume and is_shard_folder(shards)):
            _cut(_load(graph, config), workers, shards, config, console)
        if Place.here().rank == 0:
            job.write()

    if launched():
        return _finished(run, train_worker(job, prepare))
    prepare()
    if workers == 1:
        return _finished(run, train_worker(job))
    _check_exit(run_local(workers, "halowire.cli.worker", ["train", str(run)], max_restarts))
    return _finished(run, json.loads((run / "summary.json").read_text()))


def predict(run: Run | str | Path, out: str | Path) -> Path:
    """Write the predictions of a run for every node, in the order of the user's graph.

    Args:
        run: a run, or its folder.
        out: ``.npy`` for logits ``[num_nodes, num_classes]``, ``.csv`` for ``id,class`` lines.
    """
    folder, target = run.folder if isinstance(run, Run) else Path(run), Path(out)
    check_format(target)
    job = replace(Job.read(folder), quiet=True)
    if launched() or job.workers == 1:
        if Place.here().size != job.workers:
            raise InputError(f"run {folder} has {job.workers} parts, but {Place.here().size} workers were started")
        predict_worker(job, target)
    else:
        _check_exit(run_local(job.workers, "halowire.cli.worker", ["predict", str(folder), str(target)]))
    return target


def _load(graph: Any, config: Config) -> Graph:
    source = config.graph
    return load(graph, source.undirected, features=source.features or None, labels=source.labels or None)


def _cut(graph: Graph, num_parts: int, out: Path, config: Config, console: Console) -> Path:
    owners = parts.partition(graph, num_parts, config.partition.method, config.seed)
    widths = exchanged_widths(graph.num_features, config.model.hidden, graph.num_classes, config.model.layers)
    quality = parts.measure(graph, owners, widths)
    for line in quality.lines():
        console.line(line)
    for warning in quality.warnings:
        console.warn(warning)
    return parts.write_shards(graph, owners, out, inductive=config.task.inductive, quality=quality)


def _worker_count(workers: int | None, graph: Any, config: Config) -> int:
    started = Place.here().size if launched() else workers
    if started is None:
        started = parts.read_manifest(graph)["num_parts"] if _is_shards(graph) else 1
    if workers is not None and workers != started:
        raise InputError(
            f"--workers is {workers}, but the launcher started {started}; leave --workers out under torchrun"
        )
    if started < 1:
        raise InputError(f"--workers is {started}; at least one worker is needed")
    if config.mesh.parts not in (0, started):
        raise InputError(f"--mesh.parts is {config.mesh.parts}, but there are {started} workers; they must be equal")
    if _is_shards(graph):
        manifest = parts.read_manifest(graph)
        if manifest["num_parts"] != started:
            raise InputError(
                f"{graph} holds {manifest['num_parts']} shards, but there are {started} workers; they must be equal"
            )
    return int(started)


def _is_shards(graph: Any) -> bool:
    return isinstance(graph, str | Path) and is_shard_folder(Path(graph))


def _graph_name(graph: Any) -> str:
    if isinstance(graph, Graph):
        return graph.name
    if _is_shards(graph):
        return str(parts.read_manifest(graph)["graph"])
    if isinstance(graph, str | Path):
        return Path(str(graph).partition(":")[0]).name.partition(".")[0]
    return "graph"


def _run_folder(out: str | Path | None, name: str, resume: bool, overwrite: bool) -> Path:
    if out is None:
        if resume:
            raise InputError("--resume needs --out, the folder of the run to go on with")
        number = 1
        while Path("runs", f"{name}-{number}").exists():
            number += 1
        return Path("runs", f"{name}-{number}")
    run = Path(out)
    if run.exists() and not run.is_dir():
        raise InputError(f"--out {run} is a file; give a folder")
    before = (run / "config.json").exists()
    if before and overwrite and not launched():
        shutil.rmtree(run)
    elif before and not resume and not overwrite:
        raise InputError(f"{run} already holds a run; --resume goes on with it, --overwrite deletes it")
    return run


def _finished(run: Path, summary: dict[str, Any]) -> Run:
    if summary["status"] == "stopped":
        raise Interrupted(f"stopped after epoch {summary['epochs']} of {run}; --resume --out {run} goes on")
    return Run(run, summary)


def _check_exit(code: int) -> None:
    if code == INTERRUPTED:
        raise Interrupted("stopped by a signal; --resume with the same --out goes on from the checkpoint")
    if code == 2:
        raise InputError("the workers refused their input; the line above says why")
    if code:
        raise TrainingError("a worker failed; what it printed above says why") if code == FAILED else SystemExit(code)
