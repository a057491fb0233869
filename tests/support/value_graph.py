"""A small graph whose nodes have values to predict instead of classes."""

from __future__ import annotations

import torch

from halowire.graph import Graph, check

NODES = 80


def make_graph(columns: int = 2) -> Graph:
    generator = torch.Generator().manual_seed(4)
    edge_index = torch.randint(NODES, (2, 400), generator=generator)
    x = torch.randn(NODES, 5, generator=generator)
    y = 3 * x[:, :columns].clone() + 100 + torch.randn(NODES, columns, generator=generator)
    split = torch.randint(3, (NODES,), generator=generator)
    masks = {f"{name}_mask": split == place for place, name in enumerate(("train", "val", "test"))}
    return check(Graph.from_edge_index(edge_index, NODES, x, y, **masks, regression=True, name="values"))
