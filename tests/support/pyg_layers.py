"""PyG's layers by name, each as a model of two layers: which are equal on many workers, and which are refused."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch_geometric.nn as pyg
from torch import nn

from tests.support.pyg_case import CLASSES, FEATURES
from tests.support.pyg_models import ATTR, HIDDEN, PLAIN, WEIGHT, gat, mlp, pna, two

TYPE = ("x", "edge_index", "edge_type")
EQUAL, REFUSED = "equal", "refused"


class One(nn.Module):
    """A layer that keeps the width, between two linear maps."""

    def __init__(self, layer: nn.Module, width: int = HIDDEN) -> None:
        super().__init__()
        self.first, self.layer, self.last = nn.Linear(FEATURES, HIDDEN), layer, nn.Linear(width, CLASSES)

    def forward(self, x, edge_index, *edge):
        return self.last(self.layer(self.first(x).tanh(), edge_index, *edge))


class Initial(nn.Module):
    """A layer that takes the rows of the beginning too."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.first, self.layer, self.last = nn.Linear(FEATURES, HIDDEN), layer, nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        h = self.first(x).tanh()
        return self.last(self.layer(h, h, edge_index))


class Positions(nn.Module):
    """A layer of points, whose places are the first columns of the features."""

    def __init__(self, layer: nn.Module, rows: bool) -> None:
        super().__init__()
        self.layer, self.rows = layer, rows

    def forward(self, x, edge_index):
        return self.layer(x, x[:, :3], edge_index) if self.rows else self.layer(x, edge_index)


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[str, ...], str]] = {
    "AGNNConv": (lambda: One(pyg.AGNNConv()), PLAIN, EQUAL),
    "APPNP": (lambda: One(pyg.APPNP(3, 0.1)), WEIGHT, EQUAL),
    "ARMAConv": (lambda: two(pyg.ARMAConv), WEIGHT, EQUAL),
    "AntiSymmetricConv": (lambda: One(pyg.AntiSymmetricConv(HIDDEN)), PLAIN, EQUAL),
    "CGConv": (lambda: One(pyg.CGConv(HIDDEN, 3)), ATTR, EQUAL),
    "ChebConv": (lambda: two(pyg.ChebConv, K=3), WEIGHT, EQUAL),
    "ClusterGCNConv": (lambda: two(pyg.ClusterGCNConv), PLAIN, EQUAL),
    "DirGNNConv": (lambda: One(pyg.DirGNNConv(pyg.SAGEConv(HIDDEN, HIDDEN))), PLAIN, EQUAL),
    "EGConv": (lambda: two(pyg.EGConv, num_heads=2), PLAIN, EQUAL),
    "EdgeConv": (lambda: two(lambda a, b: pyg.EdgeConv(nn.Linear(2 * a, b))), PLAIN, EQUAL),
    "FAConv": (lambda: Initial(pyg.FAConv(HIDDEN)), PLAIN, EQUAL),
    "FastRGCNConv": (lambda: two(lambda a, b: pyg.FastRGCNConv(a, b, 3)), TYPE, EQUAL),
    "FeaStConv": (lambda: two(pyg.FeaStConv, heads=2), PLAIN, EQUAL),
    "FiLMConv": (lambda: two(pyg.FiLMConv), PLAIN, EQUAL),
    "GATConv": (lambda: gat(pyg.GATConv, True), PLAIN, EQUAL),
    "GATv2Conv": (lambda: gat(pyg.GATv2Conv, True, edge_dim=3), ATTR, EQUAL),
    "GCN2Conv": (lambda: Initial(pyg.GCN2Conv(HIDDEN, 0.2)), PLAIN, EQUAL),
    "GCNConv": (lambda: two(pyg.GCNConv), WEIGHT, EQUAL),
    "GENConv": (lambda: two(pyg.GENConv, edge_dim=3), ATTR, EQUAL),
    "GINConv": (lambda: two(lambda a, b: pyg.GINConv(mlp(a, b))), PLAIN, EQUAL),
    "GINEConv": (lambda: two(lambda a, b: pyg.GINEConv(nn.Linear(a, b), edge_dim=3)), ATTR, EQUAL),
    "GMMConv": (lambda: two(pyg.GMMConv, dim=3, kernel_size=2), ATTR, EQUAL),
    "GPSConv": (lambda: One(pyg.GPSConv(HIDDEN, pyg.SAGEConv(HIDDEN, HIDDEN), heads=2)), PLAIN, REFUSED),
    "GatedGraphConv": (lambda: One(pyg.GatedGraphConv(HIDDEN, 2)), WEIGHT, EQUAL),
    "GeneralConv": (lambda: two(pyg.GeneralConv), PLAIN, EQUAL),
    "GraphConv": (lambda: two(pyg.GraphConv), WEIGHT, EQUAL),
    "LEConv": (lambda: two(pyg.LEConv), WEIGHT, EQUAL),
    "LGConv": (lambda: One(pyg.LGConv()), WEIGHT, EQUAL),
    "MFConv": (lambda: two(pyg.MFConv), PLAIN, EQUAL),
    "MixHopConv": (lambda: One(pyg.MixHopConv(HIDDEN, HIDDEN), 3 * HIDDEN), WEIGHT, EQUAL),
    "NNConv": (lambda: two(lambda a, b: pyg.NNConv(a, b, nn.Linear(3, a * b))), ATTR, EQUAL),
    "PDNConv": (lambda: two(pyg.PDNConv, edge_dim=3, hidden_channels=5), ATTR, EQUAL),
    "PNAConv": (lambda: two(pna, edge_dim=3), ATTR, EQUAL),
    "PointNetConv": (lambda: Positions(pyg.PointNetConv(nn.Linear(FEATURES + 3, CLASSES)), True), PLAIN, EQUAL),
    "PointTransformerConv": (lambda: Positions(pyg.PointTransformerConv(FEATURES, CLASSES), True), PLAIN, EQUAL),
    "RGATConv": (lambda: two(lambda a, b: pyg.RGATConv(a, b, 3)), TYPE, EQUAL),
    "RGCNConv": (lambda: two(lambda a, b: pyg.RGCNConv(a, b, 3)), TYPE, EQUAL),
    "ResGatedGraphConv": (lambda: two(pyg.ResGatedGraphConv), PLAIN, EQUAL),
    "SAGEConv": (lambda: two(pyg.SAGEConv), PLAIN, EQUAL),
    "SGConv": (lambda: two(pyg.SGConv, K=2), WEIGHT, EQUAL),
    "SSGConv": (lambda: two(pyg.SSGConv, alpha=0.2, K=2), WEIGHT, EQUAL),
    "SimpleConv": (lambda: One(pyg.SimpleConv("mean", "cat"), 2 * HIDDEN), PLAIN, EQUAL),
    "SuperGATConv": (lambda: two(pyg.SuperGATConv), PLAIN, REFUSED),
    "TAGConv": (lambda: two(pyg.TAGConv), WEIGHT, EQUAL),
    "TopKPooling": (lambda: One(pyg.TopKPooling(HIDDEN)), PLAIN, REFUSED),
    "TransformerConv": (lambda: gat(pyg.TransformerConv, True, edge_dim=3, beta=True), ATTR, EQUAL),
}  # fmt: skip
"""By name: how the model is made, the names of its inputs, and what becomes of it on many workers."""


def build_layer(name: str) -> tuple[nn.Module, tuple[str, ...]]:
    """The model of one layer, with the same weights wherever it is made, and the names of its inputs."""
    make, inputs, _ = LAYERS[name]
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return make(), inputs
