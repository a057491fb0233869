"""Small graphs with every awkward feature: isolated nodes, self loops, duplicates, directed edges, odd ids."""

from __future__ import annotations

import torch

from halowire.graph import Graph
from halowire.kernels import Csr


def awkward(
    num_nodes: int = 30,
    num_edges: int = 120,
    seed: int = 0,
    weighted: bool = False,
    multi_label: bool = False,
    sparse: bool = False,
) -> Graph:
    """A directed random graph whose last two nodes are isolated and which has self loops and duplicate edges."""
    generator = torch.Generator().manual_seed(seed)
    reach = max(num_nodes - 2, 1)
    edges = torch.randint(0, reach, (2, num_edges), generator=generator)
    loops = torch.arange(0, reach, 5).repeat(2, 1)
    edges = torch.cat([edges, edges[:, : num_edges // 10], loops, loops[:, :1]], 1)
    x = torch.rand(num_nodes, 6, generator=generator) * (torch.rand(num_nodes, 6, generator=generator) > 0.5)
    labels = torch.randint(0, 4, (num_nodes,), generator=generator)
    several = (torch.rand(num_nodes, 5, generator=generator) > 0.5).float()
    turn = torch.arange(num_nodes) % 4
    where = x.nonzero()
    return Graph.from_edge_index(
        edges,
        num_nodes,
        x=Csr.from_edges(where[:, 0], where[:, 1], num_nodes, 6, x[x != 0]) if sparse else x,
        y=several if multi_label else labels,
        train_mask=turn < 2,
        val_mask=turn == 2,
        test_mask=turn == 3,
        edge_weight=torch.rand(edges.shape[1], generator=generator) + 0.1 if weighted else None,
        ids=torch.arange(num_nodes) * 3 + 100,
        name="awkward",
        num_classes=5 if multi_label else 4,
    )
