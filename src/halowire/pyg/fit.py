"""``halowire.fit`` trains a PyG model on local workers with one call, from a script or a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from halowire.errors import InputError, NotFiniteError, WorkerError
from halowire.graph import Graph, LinkSplit, check, is_hetero
from halowire.inputs import read_json
from halowire.launch import (
    folder_locked,
    launched,
    private_folder,
    refuse_crowd,
    refuse_missing_means,
    run_folder,
    run_workers,
)
from halowire.pyg.hand_over import HandOver, cpu_copy, hand_over
from halowire.pyg.hetero_fit import LABELS, TypedTensors
from halowire.pyg.own_model import DECODER, LossFunction, required_inputs, trained_weights
from halowire.pyg.shard_data import only_edges, tensors_of
from halowire.pyg.trial import needed_inputs
from halowire.pyg.whole_layers import refuse_unsupported
from halowire.report import Console
from halowire.training import (
    PREDICTIONS,
    Config,
    Decoder,
    Job,
    Run,
    Situation,
    best_weights,
    bring_back,
    cut_for,
    earlier_run_kept,
    finished,
    hold_out,
    holds_parts,
    mesh_for_hosts,
    parse_weights,
    recipe_config,
    refuse,
    refuse_other_job,
    refuse_untrainable,
    set_aside,
    worker_error,
)
from halowire.wire import RowCodec, check_codec


@dataclass(frozen=True)
class Fit(Run):
    """A trained ``model``, its run folder and summary, and its output for every node (``predictions``).

    Predictions are in the user's order; of a ``HeteroData`` they are those of the node type that is learnt. For
    ``task="link"`` they are rows of nodes; the trained ``decoder``, or the dot product if none was given, scores pairs
    of them.

    Example:
        >>> done = halowire.fit(model, data, workers=2)
        >>> done.model, done.predictions.argmax(1), done.summary["test"], done.report
    """

    model: nn.Module
    predictions: Tensor
    decoder: Decoder | None = None


def fit(
    model: nn.Module,
    data: Any,
    workers: int = 1,
    recipe: str = "exact",
    *,
    task: str = "auto",
    loss: LossFunction | None = None,
    inputs: Sequence[str] | None = None,
    decoder: Decoder | None = None,
    codec: RowCodec | None = None,
    node_weights: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    max_restarts: int = 0,
    quiet: bool = False,
) -> Fit:
    """Train ``model`` on ``data``, spread over ``workers`` local processes, without torchrun or a ``__main__`` guard.

    Example:
        >>> model = torch_geometric.nn.GraphSAGE(data.num_features, 64, num_layers=2, out_channels=7)
        >>> done = halowire.fit(model, data, workers=2, recipe="halowire", settings={"epochs": 100})

    Args:
        model: a module of PyG layers, as for `halowire.distribute`; it is not changed.
        data: a PyG ``Data`` (or anything `halowire.load` reads) with features, labels and the three masks; or a
            ``HeteroData`` of which one node type has labels and masks, for a model that takes ``x_dict`` and the like.
        workers: number of local workers.
        recipe: a named, complete setting.
        task: ``classification`` (classes or several labels), ``regression`` (values ``[N]`` or ``[N, k]``) or ``link``
            (which pairs have an edge; needs no labels); ``auto``: classification, or what a `Graph` of values asks for.
        loss: ``loss(out, part)`` gives one value for each of the worker's rows that count; halowire divides the sum by
            the number of all workers' values. By default: cross entropy of the training nodes, for
            regression their squared error.
        inputs: names of the tensors that ``forward`` is called with; by default its required parameters.
        decoder: for links, ``decoder(sources, targets)`` gives a score for each pair of rows. It is a function, or a
            module, which is trained too. By default: the dot product of the two rows.
        codec: a codec of one's own for the rows that the recipe would send in float32 (`halowire.RowCodec`).
        node_weights: names of the weights that have a row for each node, as for `halowire.distribute`.
        settings: overrides with the names of the command line, such as ``{"epochs": 100, "optim.lr": 0.005}``.
        out: the run folder; by default a new one under ``runs/``.
        resume: go on from the newest whole checkpoint in ``out`` with the same model, data and settings (more epochs
            are allowed where no schedule spans them); the result is that of an uninterrupted run. With another number
            of ``workers`` the graph is cut again, and the first epoch uses fresh rows.
        overwrite: delete an earlier run in ``out``.
        max_restarts: how often crashed workers are started again, from the newest checkpoint; the result is that of an
            uninterrupted run. Checkpoints are written as the settings ``checkpoint.*`` say.
        quiet: no progress.
    """
    config = recipe_config(recipe, own_model=True).replace({**(settings or {}), **_task_setting(task, settings or {})})
    refuse(config, Situation(mesh_for_hosts(config, workers), "fit", tuple(settings or {}), codec is not None))
    _refuse_call(workers, max_restarts, config.task.kind == "link", loss, decoder)
    refuse_missing_means(config.device, config.transport, workers)
    if codec is not None:
        check_codec(codec)
    refuse_unsupported(model)
    tensors, graph, links = _read(data, config, _needs_types(model, inputs))
    names = tensors.names if isinstance(tensors, TypedTensors) else tuple(tensors)
    rows = None if node_weights is None else tuple(node_weights)
    packed = HandOver(model, loss, _inputs(model, inputs, names), decoder, codec, rows).packed()
    run = run_folder(out, f"graph-{recipe}", resume, overwrite)
    place = run, "graph", "graph", run / "shards"
    job = Job(*place, workers, config, resume, quiet=quiet, table=not quiet, own_model=True)
    console = Console(quiet=quiet)
    with folder_locked(run, console.warn), earlier_run_kept(run):
        bring_back(run)
        if resume:
            refuse_other_job(job, graph)
        if overwrite:
            set_aside(run, shards=True)
        if not (resume and holds_parts(job.shards, workers)):
            types = tuple(tensors.counts.values()) if isinstance(tensors, TypedTensors) else ()
            cut_for(graph, workers, job.shards, config, console, widths=(), links=links, types=types)
        run.mkdir(parents=True, exist_ok=True)
        job.write()
        with private_folder() as folder:
            hand_over(folder.path, job, tensors, graph.num_nodes, packed)
            summary = _train(job, folder.path, max_restarts)
        return _trained(finished(job, summary), model, decoder)


def _needs_types(model: nn.Module, inputs: Sequence[str] | None) -> bool:
    """Whether ``model`` takes tensors by type, such as ``x_dict``; else a ``HeteroData`` becomes one graph."""
    return any(name.endswith("_dict") for name in inputs or needed_inputs(model))


def _trained(run: Run, model: nn.Module, decoder: Decoder | None) -> Fit:
    """Copies of the user's ``model`` and ``decoder`` with the best weights of the run."""
    weights = parse_weights(best_weights(run.folder))
    trained = cpu_copy(model)
    scores = cpu_copy(decoder)
    trained.load_state_dict(trained_weights(weights))
    if isinstance(scores, nn.Module):
        scores.load_state_dict(trained_weights(weights, DECODER))
        scores.eval()
    predictions = torch.from_numpy(np.load(run.folder / PREDICTIONS))
    return Fit(run.folder, run.summary, trained.eval(), predictions, scores)


def _read(data: Any, config: Config, types: bool) -> tuple[dict[str, Any] | TypedTensors, Graph, LinkSplit | None]:
    """The tensors of ``data`` by PyG's names, the graph to train on, and the split of the links, if they are learnt.

    With ``types``, a ``HeteroData`` keeps its types; else it becomes one graph.
    """
    regression = config.task.kind == "regression" or (isinstance(data, Graph) and data.regression)
    if types and is_hetero(data):
        return _read_types(data, config, regression)
    tensors, num_nodes = tensors_of(data, regression)
    links = None
    names: tuple[str, ...] = ("x", "y", "train_mask", "val_mask", "test_mask")
    if config.task.kind == "link":
        links = hold_out(tensors["edge_index"].cpu(), num_nodes, config)
        tensors = only_edges(tensors, num_nodes, links.message)
        names = ("x",)
    for name in names[2:]:
        mask = tensors.get(name)
        if mask is not None and mask.dim() == 2:
            raise InputError(f"{name} has {mask.shape[1]} splits; choose one: data.{name} = data.{name}[:, 0]")
    known: dict[str, Any] = {name: tensors.get(name) for name in names}
    graph = check(Graph.from_edge_index(tensors["edge_index"], num_nodes, **known, regression=regression))
    refuse_untrainable(graph, links is not None, features=False)  # whether the model takes x, its inputs say
    return tensors, graph, links


def _read_types(data: Any, config: Config, regression: bool) -> tuple[TypedTensors, Graph, None]:
    if config.task.kind == "link":
        raise InputError("task='link' is for graphs of one type; give data.to_homogeneous(), or train by a loop")
    typed = TypedTensors.of(data)
    graph = typed.graph(regression)
    if missing := [name for name in LABELS if getattr(graph, name) is None]:
        raise InputError(
            f"nodes of type {typed.learnt!r} have no {', '.join(missing)}; fit needs labels and a split of them"
        )
    return typed, graph, None


def _inputs(model: nn.Module, inputs: Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    """The names of the tensors of the graph, which has those ``known``, that ``forward`` is called with."""
    names = tuple(inputs) if inputs else tuple(required_inputs(model, known))
    if missing := [name for name in names if name not in known]:
        raise InputError(f"the graph has no {', '.join(missing)}; it has {', '.join(known)}")
    return names


def _train(job: Job, folder: Path, max_restarts: int) -> dict[str, Any]:
    try:
        run_workers(job.workers, ["fit", str(job.run), str(folder)], max_restarts)
    except (WorkerError, NotFiniteError, KeyboardInterrupt) as error:
        raise worker_error(job, error) from None
    summary: dict[str, Any] = read_json(job.run / "summary.json")
    return summary


def _task_setting(task: str, settings: Mapping[str, Any]) -> dict[str, str]:
    if "task.kind" in settings and task != "auto":
        raise InputError(f"the task is given twice, as task={task!r} and as the setting task.kind; give it once")
    return {} if task == "auto" else {"task.kind": task}


def _refuse_call(
    workers: int, max_restarts: int, link: bool, loss: LossFunction | None, decoder: Decoder | None
) -> None:
    """Refuse arguments of ``fit``, beside its settings, that are impossible or do not go together."""
    if launched():
        raise InputError("fit starts its workers itself; under torchrun use halowire.shard and halowire.distribute")
    if workers < 1:
        raise InputError(f"workers is {workers}; at least one is needed")
    if max_restarts < 0:
        raise InputError(f"max_restarts is {max_restarts}; it must be at least 0")
    refuse_crowd(workers)
    if link and loss is not None:
        raise InputError("a loss of one's own is for nodes; links are learnt by cross entropy: give a decoder instead")
    if not link and decoder is not None:
        raise InputError("decoder has no effect without task='link'; leave it out")
