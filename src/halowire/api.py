"""The public functions: load, partition, train, compare, predict. The command line calls the same ones."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from halowire.errors import InputError, Interrupted, TrainingError, WorkerError
from halowire.graph import Graph, dataset_name, is_dataset, load
from halowire.launch import Place, choose_device, launched, run_folder, run_workers
from halowire.partitioning import is_shard_folder, read_manifest, read_shard
from halowire.report import (
    ComparisonSetup,
    Console,
    comparison_record,
    count_line,
    table_rows,
    write_compare_page,
    write_record,
)
from halowire.training.checkpoint import newest_checkpoint
from halowire.training.comparison import Cell, Comparison, refuse_other_comparison
from halowire.training.config import Config
from halowire.training.given_shards import is_shards, refuse_other_cut, refuse_other_shards
from halowire.training.job import PREDICTIONS, Job, delete_run, refuse_other_job
from halowire.training.outcome import Run, finished, worker_error
from halowire.training.predict import check_format, write_predictions
from halowire.training.recipes import RECIPES, recipe_config
from halowire.training.rules import refuse
from halowire.training.situation import Situation, mesh_of
from halowire.training.source import cut_for, load_for, refuse_edge_tensors, refuse_untrainable
from halowire.worker import predict_worker, train_worker


def partition(
    graph: Graph | str | Path,
    num_parts: int,
    out: str | Path,
    method: str = "metis",
    seed: int = 0,
    inductive: bool = False,
    undirected: bool = False,
    quiet: bool = True,
    metis: str = "auto",
    balance: str = "both",
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
        metis: with the method ``metis``, ``recursive`` bisection or ``kway``; ``auto``: recursive up to 8 parts.
        balance: with the method ``metis``, parts alike in ``both`` nodes and edges, or in ``nodes`` alone, which mostly
            leaves fewer halo rows and less even work.
    """
    how = {"method": method, "metis": metis, "balance": balance}
    settings = {f"partition.{name}": value for name, value in how.items()}
    config = Config().replace(settings | {"seed": seed, "task.inductive": inductive})
    refuse(config)
    return cut_for(load(graph, undirected=undirected), num_parts, Path(out), config, Console(quiet=quiet))


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
    table: bool = True,
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
        quiet: no progress; only warnings and the final table.
        tensorboard: write TensorBoard files too.
        table: print the final table.
    """
    config = recipe_config(recipe).replace(settings or {})
    refuse(config)
    workers = _worker_count(workers, graph, config, max_restarts)
    if tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise InputError("tensorboard is not installed: pip install 'halowire[report]', or leave --tensorboard out")
    mesh, name = mesh_of(config, workers), _graph_name(graph)
    run = run_folder(out, f"{name}-{recipe}", resume, overwrite)
    shards = Path(graph) if is_shards(graph) else run / "shards"
    job = Job(run, name, _source(graph, name), shards, workers, config, resume, quiet, tensorboard, table)
    if resume:
        refuse_other_job(job, graph)
    if is_shards(graph):
        refuse_other_cut(shards, mesh.parts, config, recipe_config(recipe))
    again = resume or Place.here().restarts > 0

    def prepare() -> None:
        cut = not is_shards(graph) and not (again and is_shard_folder(shards))
        loaded = load_for(graph, config) if cut else None
        if loaded is not None:
            refuse_untrainable(loaded, config.task.kind == "link")
            refuse_edge_tensors(loaded.edge_tensors)
            mesh.refuse_impossible(config.model.layers, loaded.num_nodes // mesh.parts)
        if overwrite and not again:
            delete_run(run, shards=cut)
        if loaded is not None:
            teller = Console(quiet=quiet or Place.here().rank > 0)
            cut_for(loaded, mesh.parts, shards, config, teller)
        if Place.here().rank == 0:
            run.mkdir(parents=True, exist_ok=True)
            job.write()

    if launched():
        return finished(job, train_worker(job, prepare))
    choose_device(config.device, replace(Place.here(), local_size=workers))
    prepare()
    try:
        run_workers(workers, ["train", str(run)], max_restarts)
    except (WorkerError, KeyboardInterrupt) as error:
        raise worker_error(job, error) from None
    return finished(job, json.loads((run / "summary.json").read_text()))


def compare(
    graph: Any,
    recipes: str | Sequence[str],
    workers: int = 1,
    seeds: int = 3,
    out: str | Path = "runs/compare",
    settings: Mapping[str, Any] | None = None,
    *,
    quiet: bool = False,
) -> dict[str, Any]:
    """Train every recipe with every seed, one run after the other, and compare them; the content of `compare.json`.

    All recipes of a seed train on the same shards. Runs that are finished in ``out`` are not run again.

    Args:
        graph: a graph, a built-in name, a file or a folder (see :func:`load`).
        recipes: names of recipes, or one text that separates them by commas.
        workers: number of local workers of every run.
        seeds: number of seeds, counted from the setting ``seed``.
        out: folder for `compare.json`, `compare.html`, the shards and one run folder for each recipe and seed.
        settings: overrides for all recipes, as in :func:`train`.
        quiet: no progress; only warnings and the final table.
    """
    folder, console = Path(out), Console(quiet=quiet)
    plan = Comparison.of(recipes, seeds, settings or {}, folder)
    if launched():
        raise InputError(
            "compare starts its workers itself; under torchrun use `halowire train`, then `halowire report`"
        )
    if is_shards(graph):
        raise InputError(f"{graph} holds shards; a comparison cuts the graph anew for every seed: give the graph")
    name = _graph_name(graph)
    source = _source(graph, name)
    cells = list(plan.cells())
    for cell in cells:
        try:
            _worker_count(workers, graph, cell.config, 0)
        except InputError as error:
            raise InputError(f"{cell.recipe} cannot run here: {error}") from None
    refuse_other_comparison(plan, source, workers)
    for line in plan.notes():
        console.warn(line)

    def keep() -> dict[str, Any]:
        done = [(cell.recipe, cell.seed, cell.folder.name, found) for cell in cells if (found := cell.summary())]
        known = {recipe: RECIPES[recipe].summary for recipe in plan.recipes}
        setup = ComparisonSetup(name, source, workers, list(plan.seeds), known, plan.settings, plan.notes())
        record = comparison_record(setup, done)
        write_record(record, folder)
        return record

    shards = _shared_shards(graph, workers, plan, console)
    try:
        with console.runs_progress(len(cells), cells[0].config.epochs) as progress:
            for cell in cells:
                label, found = f"{cell.recipe} seed {cell.seed}", cell.summary()
                if found is None:
                    trained_on = shards(cell)
                    keep()
                    progress.start(label, cell.folder)
                    run = train(trained_on, workers, cell.recipe, cell.folder, cell.settings, resume=cell.begun,
                                quiet=True, table=False)  # fmt: skip
                    progress.finish(label, run.summary)
                else:
                    progress.finish(label, found, earlier=True)
    except (KeyboardInterrupt, TrainingError) as error:
        done = sum(cell.summary() is not None for cell in cells)
        kept = _kept(done, len(cells), folder)
        if done:
            keep()
            write_compare_page(folder)
        if isinstance(error, TrainingError):
            raise TrainingError(f"{label}: {error}; {kept}") from None
        raise Interrupted(kept) from None
    record = keep()
    page = write_compare_page(folder)
    console.line("")
    console.table(table_rows(record), heads=2)
    console.line(count_line(record))
    console.line(f"page in {page}")
    return record


def _kept(done: int, total: int, folder: Path) -> str:
    return f"{done} of {total} runs are finished and kept in {folder}; the same command goes on"


def predict(run: Run | str | Path, out: str | Path) -> Path:
    """Write the predictions of a run for every node, in the order of the user's graph.

    Args:
        run: a run, or its folder.
        out: ``.npy`` for logits ``[num_nodes, num_classes]``, ``.csv`` for ``id,class`` (or ``id,value``) lines.
    """
    folder, target = run.folder if isinstance(run, Run) else Path(run), Path(out)
    check_format(target)
    job = replace(Job.read(folder), quiet=True)
    if job.config.task.kind == "link" and target.suffix == ".csv":
        raise InputError("a run of links gives rows to score pairs with, no classes; give a name that ends in .npy")
    if job.own_model:
        _write_kept_predictions(job, target)
        return target
    if newest_checkpoint(folder) is None:
        raise InputError(f"run {folder} has no checkpoint yet, so there is nothing to predict with; train it first")
    read_manifest(job.shards)
    if launched():
        if Place.here().size != job.workers:
            raise InputError(f"run {folder} was trained by {job.workers} workers, but {Place.here().size} were started")
        predict_worker(job, target)
    else:
        run_workers(job.workers, ["predict", str(folder), str(target)])
    return target


def _write_kept_predictions(job: Job, target: Path) -> None:
    """Of a model of one's own, only `fit` knows the code; it left the predictions in the run folder."""
    if not (job.run / PREDICTIONS).exists():
        raise InputError(
            f"run {job.run} has no predictions yet, and its model is the program's own; let halowire.fit end it "
            "(resume=True)"
        )
    if Place.here().rank > 0:
        return
    values = torch.from_numpy(np.load(job.run / PREDICTIONS, allow_pickle=False))
    shards = [read_shard(job.shards, part, verify=False) for part in range(job.workers)]
    ids = torch.empty(len(values), dtype=torch.int64)
    for shard in shards:
        ids[shard.rows] = shard.ids
    write_predictions(values, ids, shards[0].multi_label, target, shards[0].regression)


def _shared_shards(graph: Any, workers: int, plan: Comparison, console: Console) -> Callable[[Cell], Any]:
    """What a run trains on: the shards of its seed, cut when first asked for, or the graph where it cuts its own."""
    loaded: list[Graph] = []

    def read() -> Graph:
        if not loaded:
            config = plan.cut_config(plan.seeds[0])
            loaded.append(load_for(graph, config))
            refuse_untrainable(loaded[0], config.task.kind == "link")
        return loaded[0]

    def prepare(cell: Cell) -> Any:
        if not cell.shared:
            return graph
        target, config = plan.shards(cell.seed), plan.cut_config(cell.seed)
        if is_shard_folder(target):
            refuse_other_shards(target, workers, config, graph if isinstance(graph, Graph) else None)
        else:
            cut_for(read(), workers, target, config, Console(quiet=True))
            console.line(f"cut seed {cell.seed} into {workers} shards by {config.partition.method}: {target}")
        return target

    return prepare


def _worker_count(workers: int | None, graph: Any, config: Config, max_restarts: int) -> int:
    started = Place.here().size if launched() else workers
    if started is None:
        started = read_manifest(graph)["num_parts"] * max(1, config.mesh.stages) if is_shards(graph) else 1
    if workers is not None and workers != started:
        raise InputError(
            f"--workers is {workers}, but the launcher started {started}; leave --workers out under torchrun"
        )
    if started < 1:
        raise InputError(f"--workers is {started}; at least one worker is needed")
    if max_restarts < 0:
        raise InputError(f"--max-restarts is {max_restarts}; it must be at least 0")
    if max_restarts and launched():
        raise InputError("--max-restarts is for workers that halowire starts; give it to torchrun instead")
    refuse(config, Situation(mesh_of(config, int(started))))
    return int(started)


def _source(graph: Any, name: str) -> str:
    """What the graph was read from; files by their whole path, so that a run is known from any folder."""
    if not isinstance(graph, str | Path):
        return name
    return str(Path(graph).absolute()) if Path(graph).exists() else str(graph)


def _graph_name(graph: Any) -> str:
    if isinstance(graph, Graph):
        return graph.name
    if is_shards(graph):
        return str(read_manifest(graph)["graph"])
    if isinstance(graph, str) and is_dataset(graph):
        return dataset_name(graph)
    if isinstance(graph, str | Path):
        return Path(str(graph).partition(":")[0]).name.partition(".")[0] or "graph"
    return "graph"
