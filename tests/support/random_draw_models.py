"""Models that draw random numbers of nodes and edges in forward."""

from __future__ import annotations

import torch_geometric.nn as pyg
from torch import Tensor, nn

import halowire
from tests.support.pyg_case import (
    CLASSES,
    FEATURES,
)


class Noisy(nn.Module):
    """Noise on the features of nodes, and random weights of edges."""

    def __init__(self) -> None:
        super().__init__()
        self.random = halowire.Random(seed=3)
        self.first, self.second = pyg.SAGEConv(FEATURES, 8), pyg.GCNConv(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(x + self.random.nodes(edge_index, x.size(0), x.size(1)), edge_index)
        return self.second(h, edge_index, self.random.edges(edge_index)[:, 0])


class Infomax(nn.Module):
    """The corruption of Deep Graph Infomax: the rows of all nodes in a random order."""

    def __init__(self) -> None:
        super().__init__()
        self.random = halowire.Random(seed=3)
        self.begin, self.conv = nn.Linear(FEATURES, 8), pyg.SAGEConv(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.begin(x)
        return self.conv(h, edge_index) - 2 * self.conv(self.random.shuffled(h, edge_index), edge_index)


class Supervised(nn.Module):
    """SuperGAT, and scores of its negative pairs that are added up at both ends."""

    def __init__(self) -> None:
        super().__init__()
        self.random = halowire.Random(seed=3)
        self.begin = nn.Linear(FEATURES, 8)
        self.conv = pyg.SuperGATConv(8, CLASSES, attention_type="SD", edge_sample_ratio=1.0)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.begin(x)
        row, col = negative = self.random.negatives(edge_index, x.size(0), 2)
        score = (h[row] * h[col]).sum(-1).sigmoid()
        sums = x.new_zeros(x.size(0)).index_add(0, col, score).index_add(0, row, score)
        return self.conv(h, edge_index, negative) + sums[:, None]
