"""Reading a graph as the settings say."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from halowire.graph import Graph, load
from halowire.graph.link_split import LinkSplit, split_links
from halowire.train.config import Config, GraphConfig


def load_source(graph: Any, source: GraphConfig, regression: bool = False) -> Graph:
    """The graph that ``graph`` names, read under ``source``."""
    return load(
        graph,
        source.undirected,
        features=source.features or None,
        labels=source.labels or None,
        regression=regression or source.regression,
    )


def hold_out(edge_index: Tensor, num_nodes: int, config: Config) -> LinkSplit:
    """The edges that link prediction holds out under ``config``."""
    task = config.task
    return split_links(edge_index, num_nodes, task.val_share, task.test_share, task.negatives, config.seed)


def load_for(graph: Any, config: Config) -> Graph:
    """The same for a run."""
    return load_source(graph, config.graph, config.task.kind == "regression")
