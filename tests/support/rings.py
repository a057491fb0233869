"""Rings of nodes, cut into arcs: the smallest graphs with a boundary and an interior."""

from __future__ import annotations

import torch

from halowire.graph import Graph
from halowire.kernels import Csr
from halowire.partitioning import Partition, Shard, cut

NODES, FEATURES = 40, 6


def ring(sparse: bool = False, directed: bool = False) -> Graph:
    nodes = torch.arange(NODES)
    edges = torch.stack([nodes, (nodes + 1) % NODES])
    edges = edges if directed else torch.cat([edges, edges.flip(0)], 1)
    x = torch.randn(NODES, FEATURES, generator=torch.Generator().manual_seed(0))
    if sparse:
        rows, cols = (x > 1.2).nonzero(as_tuple=True)
        x = Csr.from_edges(rows, cols, NODES, FEATURES, x[rows, cols])
    return Graph.from_edge_index(edges, NODES, x=x, y=nodes % 3, num_classes=3)


def arc(graph: Graph, parts: int) -> Shard:
    """The first of ``parts`` equal arcs."""
    owner = torch.arange(NODES) * parts // NODES
    return cut(graph, Partition(owner, parts, "given", 0))[0]
