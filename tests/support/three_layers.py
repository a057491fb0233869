"""Models of three layers that add rows up: of their two exchanges of hidden rows the first one can be left out."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor, nn

from tests.support.pyg_case import CLASSES, FEATURES

HIDDEN = 8


class Three(nn.Module):
    """Three layers of one kind; after the first one a norm, ReLU and dropout, which a copy of a row repeats."""

    def __init__(self, kind: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.one, self.two, self.three = kind(FEATURES, HIDDEN), kind(HIDDEN, HIDDEN), kind(HIDDEN, CLASSES)
        self.norm = nn.LayerNorm(HIDDEN)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = F.dropout(self.norm(self.one(x, edge_index)).relu(), 0.3, self.training)
        return self.three(self.two(h, edge_index).tanh(), edge_index)


KINDS: dict[str, Callable[[int, int], nn.Module]] = {
    "GCNConv": pyg.GCNConv,
    "SAGEConv": pyg.SAGEConv,
    "GINConv": lambda width, out: pyg.GINConv(nn.Linear(width, out)),
    "GraphConv": pyg.GraphConv,
}
