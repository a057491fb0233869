"""Reading and cutting a graph as the settings say; what training needs of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.graph import Graph, LinkSplit, check, load, message_graph, random_split, split_links
from halowire.partitioning import Cutting, cut_shards
from halowire.training.config import Config, GraphConfig
from halowire.training.model_setup import output_width, travelling_widths


class Console(Protocol):
    """Who tells the user how good a cut is."""

    def line(self, text: str, /) -> None:
        """A line of the report."""

    def warn(self, text: str, /) -> None:
        """Something to look at."""


def load_source(graph: Any, source: GraphConfig, regression: bool = False) -> Graph:
    """The graph that ``graph`` names, read under ``source``."""
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
    """Other masks, at random among the labelled nodes; data sets such as Amazon's have none of their own."""
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


def refuse_untrainable(graph: Graph, link: bool = False) -> None:
    """Refuse a graph that lacks what training needs; ``link``: its edges are learnt, so that it needs no labels."""
    if link and graph.x is not None:
        return
    needed = {"features (x)": graph.x} if link else {
        "features (x)": graph.x, "labels (y)": graph.y, "train_mask": graph.train_mask, "val_mask": graph.val_mask,
        "test_mask": graph.test_mask,
    }  # fmt: skip
    missing = [name for name, value in needed.items() if value is None]
    if missing:
        raise InputError(
            f"graph {graph.name!r} has no {', '.join(missing)}; training needs "
            + ("features" if link else "features, labels and a split")
        )


def refuse_edge_tensors(names: Iterable[str]) -> None:
    """Refuse what edges have beside weights, which the built-in models do not use."""
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
) -> Path:
    """Cut ``graph`` into shards in the folder ``out`` as ``config`` says.

    ``widths``: columns of the rows that travel, by default those of the configured model. ``links``: edges of link
    prediction that ``graph`` holds no longer; by default they are held out here.
    """
    if config.task.kind == "link" and links is None:
        links = hold_out(graph.edge_index(), graph.num_nodes, config)
        graph = message_graph(graph, links.message)
    if widths is None:
        widths = travelling_widths(config.model, graph.num_features, output_width(config, graph.num_classes))
    how = Cutting(**vars(config.partition), seed=config.seed, inductive=config.task.inductive)
    return cut_shards(graph, num_parts, out, how, widths, console.line, console.warn, links)
