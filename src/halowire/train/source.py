"""Reading a graph as the settings say."""

from __future__ import annotations

from typing import Any

from halowire.graph import Graph, load
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


def load_for(graph: Any, config: Config) -> Graph:
    """The same for a run."""
    return load_source(graph, config.graph, config.task.kind == "regression")
