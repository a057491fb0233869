"""The public functions partition, train, compare and predict; the command line calls the same functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from halowire.comparing import Comparing
from halowire.graph import Graph, load
from halowire.launch import folder_locked, named_folder
from halowire.report import Console
from halowire.running import RunOptions, predict_run, train_run
from halowire.training import Comparison, Config, Run, cut_for, refuse

__all__ = ["compare", "load", "partition", "predict", "train"]


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
    balance: str = "auto",
) -> Path:
    """Cut a graph into ``num_parts`` shards in the folder ``out``, ready for :func:`train`.

    Example:
        >>> shards = halowire.partition("debian", 4, "shards")
        >>> run = halowire.train(shards)

    Args:
        graph: a graph, a built-in name, a file or a folder (see :func:`load`).
        num_parts: number of parts, one per worker.
        out: folder for `manifest.json` and one folder per part.
        method: ``metis``, ``hypergraph`` (fewest halo rows), ``kaminpar`` (for graphs METIS cannot hold), ``random``,
            ``range``, ``stream`` (one pass, any size), or ``auto``, which chooses by size; ``hypergraph`` and
            ``kaminpar`` need ``pip install 'halowire[partition]'``.
        seed: seed of the partitioner.
        inductive: also cut the subgraph of the training nodes, for inductive training.
        undirected: add the reverse of every edge first.
        quiet: do not print the quality report.
        metis: with the method ``metis``, ``recursive`` bisection or ``kway``; ``auto``: recursive up to 8 parts.
        balance: with the methods ``metis``, ``hypergraph`` and ``kaminpar``, parts of equal nodes plus edges
            (``both``), or of equal ``nodes`` alone, which mostly leaves fewer halo rows and less even work; ``auto``:
            as ``both``, with other weights of the edges where a part would be too large.

    Returns:
        The folder ``out``.
    """
    how = {"method": method, "metis": metis, "balance": balance}
    settings = {f"partition.{name}": value for name, value in how.items()}
    config = Config().replace(settings | {"seed": seed, "task.inductive": inductive})
    refuse(config)
    console = Console(quiet=quiet)
    folder = named_folder(out)
    with folder_locked(folder, console.warn):
        return cut_for(load(graph, undirected=undirected), num_parts, folder, config, console)


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

    Example:
        >>> run = halowire.train("debian", workers=2, recipe="halowire", settings={"epochs": 50})
        >>> run.summary["test"], run.report

    Args:
        graph: a :class:`Graph`, a PyG ``Data``, a built-in name (``"debian"``), a file, or a folder of shards.
        workers: number of local workers; leave it out under torchrun, which starts the workers.
        recipe: a named, complete setting.
        out: the run folder; by default a new one under ``runs/``.
        settings: overrides with the names of the command line, for example ``{"model.hidden": 128, "epochs": 50}``.
        resume: go on from the newest whole checkpoint in ``out``; with another number of workers the graph is cut
            again.
        overwrite: delete an earlier run in ``out``.
        max_restarts: how often crashed local workers are started again, from the newest checkpoint.
        quiet: no progress; only warnings and the final table.
        tensorboard: write TensorBoard files too.
        table: print the final table.
    """
    options = RunOptions(resume, overwrite, max_restarts, quiet, tensorboard, table)
    return train_run(graph, workers, recipe, out, settings or {}, options)


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
    """Train every recipe with every seed, one run after the other, and compare them.

    All recipes of a seed train on the same shards. Runs that are finished in ``out`` are not run again.

    Example:
        >>> found = halowire.compare("debian", ["exact", "halowire"], workers=2, out="both")
        >>> found["aggregated"]["halowire"]["to_exact"]["test"]["mean"]

    Args:
        graph: a graph, a built-in name, a file or a folder (see :func:`load`).
        recipes: names of recipes, or one text that separates them by commas.
        workers: number of local workers of every run.
        seeds: number of seeds, counted from the setting ``seed``.
        out: folder for `compare.json`, `compare.html`, the shards and one run folder for each recipe and seed.
        settings: overrides for all recipes, as in :func:`train`.
        quiet: no progress; only warnings and the final table.

    Returns:
        The content of `compare.json`.
    """
    plan = Comparison.of(recipes, seeds, settings or {}, named_folder(out))
    return Comparing(plan, graph, workers, Console(quiet=quiet)).run()


def predict(run: Run | str | Path, out: str | Path, *, device: str | None = None) -> Path:
    """Write the predictions of a run for every node, in the order of the user's graph.

    Example:
        >>> run = halowire.train("debian", workers=2)
        >>> classes = numpy.load(halowire.predict(run, "logits.npy")).argmax(1)

    Args:
        run: a run, or its folder.
        out: ``.npy`` for logits ``[num_nodes, num_classes]``, ``.csv`` for ``id,class`` (or ``id,value``) lines.
        device: ``cpu``, ``cuda`` or ``auto``; left out, what the run was trained with.

    Returns:
        The file ``out``.
    """
    target = Path(out)
    predict_run(run.folder if isinstance(run, Run) else Path(run), target, device)
    return target
