"""The small graphs that tests share."""

from __future__ import annotations

import numpy as np
import torch

from halowire.graph import Graph, check

VALUE_NODES = 80
"""Nodes of the graph whose labels are values."""


def triangle() -> Graph:
    """0 -> 1 -> 2 -> 0 with a self loop at 2, a duplicate 0 -> 1, two classes and a mask for each node."""
    node = torch.arange(3)
    return Graph.from_edge_index(
        torch.tensor([[0, 1, 2, 2, 0], [1, 2, 0, 2, 1]]),
        3,
        torch.tensor([[1.0, 0.0], [0.5, 2.0], [0.0, 3.0]]),
        torch.tensor([0, 1, 1]),
        train_mask=node == 0,
        val_mask=node == 1,
        test_mask=node == 2,
        name="triangle",
    )


def random_graph(num_nodes: int, num_edges: int, seed: int, weighted: bool = False) -> Graph:
    """Any directed graph: self loops and duplicates included."""
    rng = np.random.default_rng(seed)
    edge_index = rng.integers(0, num_nodes, (2, num_edges))
    weight = rng.random(num_edges, dtype=np.float32) if weighted else None
    return Graph.from_edge_index(edge_index, num_nodes, edge_weight=weight)


def graph_of_values(columns: int = 2) -> Graph:
    """A graph whose labels are values: ``columns`` of them, made from its features with noise."""
    generator = torch.Generator().manual_seed(4)
    edge_index = torch.randint(VALUE_NODES, (2, 400), generator=generator)
    x = torch.randn(VALUE_NODES, 5, generator=generator)
    y = 3 * x[:, :columns].clone() + 100 + torch.randn(VALUE_NODES, columns, generator=generator)
    split = torch.randint(3, (VALUE_NODES,), generator=generator)
    masks = {f"{name}_mask": split == place for place, name in enumerate(("train", "val", "test"))}
    return check(Graph.from_edge_index(edge_index, VALUE_NODES, x, y, **masks, regression=True, name="values"))
