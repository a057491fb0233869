"""Models with a row of weights for each node, by name, with the names of their inputs."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

from tests.support.pyg_case import CLASSES, FEATURES, NODES
from tests.support.pyg_models import HIDDEN


class Recommender(nn.Module):
    """LightGCN in the user's own words: the rows are the embedding's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(NODES, HIDDEN)
        self.convs = nn.ModuleList([pyg.LGConv(), pyg.LGConv()])

    def forward(self, edge_index: Tensor) -> Tensor:
        x = out = self.embedding.weight
        for conv in self.convs:
            x = conv(x, edge_index)
            out = out + x
        return out / 3


class ByNumber(nn.Module):
    """Looks its rows up by the nodes' numbers, and by both ends of every edge."""

    def __init__(self, sparse: bool = False) -> None:
        super().__init__()
        self.rows = nn.Embedding(NODES, HIDDEN, sparse=sparse)
        self.ends = nn.Embedding(NODES, HIDDEN, sparse=sparse)
        self.conv, self.last = pyg.GCNConv(HIDDEN, HIDDEN), nn.Linear(HIDDEN, CLASSES)

    def forward(self, n_id: Tensor, edge_index: Tensor) -> Tensor:
        row, col = edge_index
        gate = (self.ends(row) * self.ends(col)).sum(-1).sigmoid()
        return self.last(self.conv(self.rows(n_id), edge_index, gate).tanh())


class Factors(nn.Module):
    """Matrix factorisation with a bias for each node: a plain parameter, and features beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(NODES))
        self.rows = nn.Parameter(torch.randn(NODES, HIDDEN))
        self.lin = nn.Linear(FEATURES, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        return (self.rows + self.lin(x)) * self.bias[:, None].sigmoid()


class Relational(nn.Module):
    """RGCN without features: its first layer has a row for each relation, node and basis."""

    def __init__(self, **options: int) -> None:
        super().__init__()
        self.first = pyg.RGCNConv(NODES, HIDDEN, 3, **options)
        self.second = pyg.RGCNConv(HIDDEN, CLASSES, 3)

    def forward(self, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        return self.second(self.first(None, edge_index, edge_type).relu(), edge_index, edge_type)


def linkx() -> nn.Module:
    return pyg.models.LINKX(NODES, FEATURES, HIDDEN, CLASSES, 2, num_edge_layers=2)


NODE_WEIGHTS: dict[str, tuple[Callable[[], nn.Module], tuple[str, ...]]] = {
    "LightGCN": (Recommender, ("edge_index",)),
    "embedding by number": (ByNumber, ("n_id", "edge_index")),
    "embedding, sparse gradients": (lambda: ByNumber(sparse=True), ("n_id", "edge_index")),
    "matrix factorisation": (Factors, ("x",)),
    "RGCN": (Relational, ("edge_index", "edge_type")),
    "RGCN with bases": (lambda: Relational(num_bases=2), ("edge_index", "edge_type")),
    "LINKX": (linkx, ("x", "edge_index")),
}


def build(name: str) -> tuple[nn.Module, tuple[str, ...]]:
    """The model, with the same weights wherever it is built, and the names of its inputs."""
    make, inputs = NODE_WEIGHTS[name]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return make(), inputs
