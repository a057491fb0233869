"""A run trains on a graph that is read and cut as the settings say, or on shards that were cut before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.graph import Graph, LinkSplit, check, load, message_graph, random_split, split_links
from halowire.partitioning import EDGE, Cutting, cut_shards, is_shard_folder, links_record, read_manifest
from halowire.training.config import Config, GraphConfig
from halowire.training.model_setup import output_width, travelling_widths
from halowire.training.row_age import sends_narrow


class Console(Protocol):
    """Tells the user how good a cut is."""

    def line(self, text: str, /) -> None:
        """Print a line about the cut."""

    def warn(self, text: str, /) -> None:
        """Print a warning."""


def load_source(graph: Any, source: GraphConfig, regression: bool = False) -> Graph:
    """The graph that ``graph`` names, read with the settings ``source``."""
    found = load(
        graph,
        source.undirected,
        features=source.features or None,
        labels=source.labels or None,
        regression=regression or source.regression,
        root=source.root or None,
    )
    return found if source.split == "given" else check(_split(found))


def _split(graph: Graph) -> Graph:
    """``graph`` with random masks of the labelled nodes; data sets such as Amazon's have none of their own."""
    if graph.y is None:
        raise InputError(f"graph {graph.name!r} has no labels, so --graph.split random has nothing to split")
    labelled = graph.y >= 0 if graph.y.dim() == 1 else torch.isfinite(graph.y).all(1)
    nodes = labelled.nonzero()[:, 0]
    masks = []
    for part in random_split(nodes.numel(), np.random.default_rng(0)):
        mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
        mask[nodes[part]] = True
        masks.append(mask)
    return graph.with_split(*masks)


def hold_out(edge_index: Tensor, num_nodes: int, config: Config) -> LinkSplit:
    """The edges that link prediction holds out under ``config``."""
    task = config.task
    return split_links(edge_index, num_nodes, task.val_share, task.test_share, task.negatives, config.seed)


def load_for(graph: Any, config: Config) -> Graph:
    """The graph that ``graph`` names, read for a run with the settings ``config``."""
    return load_source(graph, config.graph, config.task.kind == "regression")


def refuse_untrainable(graph: Graph, link: bool = False, features: bool = True) -> None:
    """Refuse a graph that lacks what training needs.

    ``link``: its edges are learnt, so that it needs no labels; ``features``: the model takes features of the nodes.
    """
    names = {"x": "features (x)"} if features else {}
    if not link:
        names |= {"y": "labels (y)", "train_mask": "train_mask", "val_mask": "val_mask", "test_mask": "test_mask"}
    missing = [name for attribute, name in names.items() if getattr(graph, attribute) is None]
    if missing:
        raise InputError(
            f"graph {graph.name!r} has no {', '.join(missing)}; training needs "
            + ("features" if link else "features, labels and a split")
        )


def refuse_edge_tensors(names: Iterable[str]) -> None:
    """Refuse edge tensors other than weights: the built-in models do not use them."""
    if names := list(names):
        raise InputError(
            f"the edges have {', '.join(names)}, of which the models of halowire make no use; train a model of your "
            "own with halowire.fit or halowire.distribute, or leave them out"
        )


def cut_for(
    graph: Graph,
    num_parts: int,
    out: Path,
    config: Config,
    console: Console,
    widths: Sequence[int] | None = None,
    links: LinkSplit | None = None,
    types: tuple[int, ...] = (),
) -> Path:
    """Cut ``graph`` into shards in the folder ``out`` as ``config`` says.

    ``widths`` are the columns of the rows that travel, by default those of the configured model. ``links`` are the
    edges that link prediction has already taken out of ``graph``; by default they are taken out here. ``types`` are
    the numbers of nodes of a graph of several node types.
    """
    if config.task.kind == "link" and links is None:
        links = hold_out(graph.edge_index(), graph.num_nodes, config)
        graph = message_graph(graph, links.message)
    if widths is None:
        sizes = graph.num_features, output_width(config, graph.num_classes)
        widths = travelling_widths(config.model, *sizes, sends_narrow(config))
    how = Cutting(**vars(config.partition), seed=config.seed, inductive=config.task.inductive, types=types)
    return cut_shards(graph, num_parts, out, how, widths, console.line, console.warn, links)


def is_shards(graph: Any) -> bool:
    """Whether ``graph`` names a folder of shards."""
    return isinstance(graph, str | Path) and is_shard_folder(Path(graph))


def refuse_other_cut(shards: Path, num_parts: int, config: Config, default: Config) -> None:
    """Refuse settings of a run that do not fit its folder of shards, or that only have an effect before the cut.

    ``default`` are the settings of the recipe without overrides.
    """
    manifest = read_manifest(shards)
    if manifest["num_parts"] != num_parts:
        raise InputError(
            f"{shards} holds {manifest['num_parts']} shards, but the workers are {num_parts} parts; start "
            f"{manifest['num_parts']} workers, cut the graph again with `halowire partition GRAPH --parts {num_parts} "
            "--out FOLDER` and give that folder, or give the graph itself"
        )
    if config.task.inductive and not manifest["inductive"]:
        raise InputError(
            f"{shards} was cut for transductive training; cut it again with `halowire partition --inductive`"
        )
    files = manifest["parts"][0]["shard"]["files"]
    refuse_edge_tensors(name.removeprefix(EDGE) for name in files if name.startswith(EDGE))
    if config.task.kind == "link":
        _refuse_other_links(shards, config)
    if config.graph != default.graph:
        raise InputError(
            f"{shards} holds shards: --graph.* settings belong to `halowire partition`, which read the graph"
        )
    # `auto` chose a method, and the user may name either.
    methods = manifest.get("method"), manifest.get("asked")
    if config.partition.method not in (default.partition.method, *methods):
        raise InputError(
            f"{shards} was cut by {methods[0]}; --partition.method {config.partition.method} belongs to "
            "`halowire partition`"
        )
    for name in ("metis", "balance"):
        now, usual = getattr(config.partition, name), getattr(default.partition, name)
        # A manifest without this setting is from before it was recorded, when shards were cut in the usual way.
        then = manifest.get(name, usual)
        if now not in (usual, then):
            raise InputError(
                f"{shards} was cut with --partition.{name} {then}; --partition.{name} {now} belongs to "
                "`halowire partition`"
            )


def _refuse_other_links(shards: Path, config: Config) -> None:
    found = links_record(shards)
    for name in ("val_share", "test_share", "negatives", "seed"):
        now = config.seed if name == "seed" else getattr(config.task, name)
        if found[name] != now:
            flag = f"--{'seed' if name == 'seed' else 'task.' + name.replace('_', '-')}"
            raise InputError(f"the edges of {shards} were held out with {flag} {found[name]}, now it is {now}")


def refuse_other_shards(shards: Path, workers: int, config: Config, graph: Graph | None) -> None:
    """Refuse shards of an earlier comparison that were cut in another way, or from another graph."""
    manifest = read_manifest(shards)
    pairs = {
        "parts": (manifest["num_parts"], workers),
        "method": (manifest.get("asked", manifest.get("method")), config.partition.method),
        "metis": (manifest.get("metis", "auto"), config.partition.metis),
        "balance": (manifest.get("balance", "auto"), config.partition.balance),
        "seed": (manifest.get("seed"), config.seed),
        "inductive": (bool(manifest["inductive"]), config.task.inductive),
    }
    if graph is not None:
        pairs["nodes"] = manifest["num_nodes"], graph.num_nodes
        pairs["edges"] = manifest["num_edges"], graph.num_edges
    for name, (then, now) in pairs.items():
        if then != now:
            raise InputError(f"{shards} was cut with {name} {then}, now it is {now}; choose another --out or remove it")
