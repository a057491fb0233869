"""Reading a graph as the settings say."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from halowire.graph import Graph, load
from halowire.graph.checks import check
from halowire.graph.link_split import LinkSplit, split_links
from halowire.graph.split import random_split
from halowire.kernels import InputError
from halowire.train.config import Config, GraphConfig


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
    """The same for a run."""
    return load_source(graph, config.graph, config.task.kind == "regression")
