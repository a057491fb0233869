"""The models that the tests distribute, by name: one for every layer, option and norm that is promised to work."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

import halowire
from tests.support.pyg_case import CLASSES, FEATURES, NODES, make_graph

HIDDEN = 8


class Two(nn.Module):
    """Two layers with something between them; every layer gets the extra inputs that it can use."""

    def __init__(self, first: nn.Module, second: nn.Module, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.second, self.norm = first, second, norm or nn.Identity()

    def forward(self, x: Tensor, edge_index: Tensor, *edge: Tensor) -> Tensor:
        h = self.norm(self.first(x, edge_index, *edge)).relu()
        return self.second(h, edge_index, *edge)


class EdgeGated(pyg.MessagePassing):
    """A layer of one's own: messages of both ends and the edge's features."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__(aggr="max")
        self.lin, self.edge = nn.Linear(2 * channels, out), nn.Linear(3, out)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x, edge_attr=edge_attr)

    def message(self, x_i: Tensor, x_j: Tensor, edge_attr: Tensor) -> Tensor:
        return self.lin(torch.cat([x_i, x_j - x_i], -1)).tanh() * self.edge(edge_attr).sigmoid()


class WithoutPyG(nn.Module):
    """No layer of PyG: reads and adds by hand, in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        row, col = edge_index
        h = self.lin(x)
        forth = torch.zeros_like(h).index_add_(0, col, h[row])
        back = torch.zeros_like(h).index_add(0, row, h[col].tanh())
        degree = x.new_zeros(len(x)).scatter_add_(0, row, x.new_ones(row.numel()))
        return forth + back / (1 + degree[:, None])


class Deep(nn.Module):
    """GCNII or APPNP between linear maps."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, CLASSES)
        self.kind = kind
        self.conv = pyg.GCN2Conv(HIDDEN, 0.2, 0.5, 1) if kind == "gcn2" else pyg.APPNP(4, 0.1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        h = self.first(x).relu()
        h = self.conv(h, h, edge_index, edge_weight) if self.kind == "gcn2" else self.conv(h, edge_index, edge_weight)
        return self.last(h)


class Dropping(nn.Module):
    """Drops edges before each of two layers; the second sees other ones than the first."""

    def __init__(self) -> None:
        super().__init__()
        self.drops = nn.ModuleList([halowire.DropEdges(0.4, seed=5), halowire.DropEdges(0.2, seed=6, undirected=True)])
        self.convs = nn.ModuleList([pyg.GCNConv(FEATURES, HIDDEN), pyg.GCNConv(HIDDEN, CLASSES)])

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        for drop, conv in zip(self.drops, self.convs, strict=True):
            x = conv(x.tanh(), *drop(edge_index, edge_weight))
        return x


def two(layer: Callable[..., nn.Module], norm: nn.Module | None = None, **options: object) -> Two:
    return Two(layer(FEATURES, HIDDEN, **options), layer(HIDDEN, CLASSES, **options), norm)


def gat(layer: Callable[..., nn.Module], concat: bool, **options: object) -> Two:
    width = HIDDEN * 2 if concat else HIDDEN
    return Two(
        layer(FEATURES, HIDDEN, heads=2, concat=concat, **options),
        layer(width, CLASSES, heads=2, concat=False, **options),
    )


def mlp(width: int, out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, out))


def histogram() -> Tensor:
    degree = torch.bincount(make_graph()["edge_index"][1], minlength=NODES)
    return torch.bincount(degree)


def pna(width: int, out: int, **options: object) -> nn.Module:
    kinds = ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"]
    return pyg.PNAConv(width, out, *kinds, histogram(), **options)


def zoo(kind: str, **options: object) -> nn.Module:
    if kind == "PNA":
        options |= {"aggregators": ["mean", "max"], "scalers": ["identity", "attenuation"], "deg": histogram()}
    return getattr(pyg.models, kind)(FEATURES, HIDDEN, 2, CLASSES, **options)


PLAIN, WEIGHT, ATTR = ("x", "edge_index"), ("x", "edge_index", "edge_weight"), ("x", "edge_index", "edge_attr")
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[str, ...]]] = {
    "GCNConv": (lambda: two(pyg.GCNConv), PLAIN),
    "GCNConv weighted": (lambda: two(pyg.GCNConv), WEIGHT),
    "GCNConv cached": (lambda: two(pyg.GCNConv, cached=True), WEIGHT),
    "GCNConv improved": (lambda: two(pyg.GCNConv, improved=True), WEIGHT),
    "GCNConv without loops": (lambda: two(pyg.GCNConv, add_self_loops=False), WEIGHT),
    "GCNConv against the edges": (lambda: two(pyg.GCNConv, flow="target_to_source"), WEIGHT),
    "SAGEConv mean": (lambda: two(pyg.SAGEConv), PLAIN),
    "SAGEConv max": (lambda: two(pyg.SAGEConv, aggr="max"), PLAIN),
    "SAGEConv sum": (lambda: two(pyg.SAGEConv, aggr="sum", normalize=True, project=True), PLAIN),
    "GATConv concat": (lambda: gat(pyg.GATConv, True), PLAIN),
    "GATConv mean, edge features": (lambda: gat(pyg.GATConv, False, edge_dim=3), ATTR),
    "GATv2Conv concat, edge features": (lambda: gat(pyg.GATv2Conv, True, edge_dim=3), ATTR),
    "GATv2Conv mean": (lambda: gat(pyg.GATv2Conv, False), PLAIN),
    "TransformerConv": (lambda: gat(pyg.TransformerConv, True, edge_dim=3, beta=True), ATTR),
    "GINConv": (
        lambda: Two(pyg.GINConv(mlp(FEATURES, HIDDEN), train_eps=True), pyg.GINConv(mlp(HIDDEN, CLASSES))),
        PLAIN,
    ),
    "GINEConv": (lambda: two(lambda a, b, **o: pyg.GINEConv(nn.Linear(a, b), edge_dim=3)), ATTR),
    "GraphConv": (lambda: two(pyg.GraphConv, aggr="mean"), WEIGHT),
    "PNAConv": (lambda: two(pna, edge_dim=3), ATTR),
    "GCN2Conv": (lambda: Deep("gcn2"), WEIGHT),
    "APPNP": (lambda: Deep("appnp"), WEIGHT),
    "ChebConv": (lambda: two(pyg.ChebConv, K=3), WEIGHT),
    "ChebConv rw": (lambda: two(pyg.ChebConv, K=3, normalization="rw"), PLAIN),
    "TAGConv": (lambda: two(pyg.TAGConv), WEIGHT),
    "SGConv": (lambda: two(pyg.SGConv, K=2, cached=False), PLAIN),
    "ARMAConv": (lambda: two(pyg.ARMAConv), WEIGHT),
    "RGCNConv": (lambda: two(lambda a, b: pyg.RGCNConv(a, b, 3)), ("x", "edge_index", "edge_type")),
    "FastRGCNConv": (lambda: two(lambda a, b: pyg.FastRGCNConv(a, b, 3)), ("x", "edge_index", "edge_type")),
    "own layer": (lambda: two(EdgeGated), ATTR),
    "own arithmetic": (WithoutPyG, PLAIN),
    "GCN model": (lambda: zoo("GCN", jk="cat", norm="batch_norm"), PLAIN),
    "GraphSAGE model": (lambda: zoo("GraphSAGE", jk="max"), PLAIN),
    "GAT model": (lambda: zoo("GAT", jk="lstm", heads=2), PLAIN),
    "GIN model": (lambda: zoo("GIN", norm="layer_norm", jk="cat"), PLAIN),
    "PNA model": (lambda: zoo("PNA", jk="max"), PLAIN),
    "DropEdges": (Dropping, WEIGHT),
    "BatchNorm": (lambda: two(pyg.GraphConv, pyg.BatchNorm(HIDDEN)), PLAIN),
    "BatchNorm, mean of all passes": (lambda: two(pyg.GraphConv, nn.BatchNorm1d(HIDDEN, momentum=None)), PLAIN),
    "BatchNorm without memory": (lambda: two(pyg.GraphConv, nn.BatchNorm1d(HIDDEN, track_running_stats=False)), PLAIN),
    "LayerNorm graph": (lambda: two(pyg.GraphConv, pyg.LayerNorm(HIDDEN)), PLAIN),
    "LayerNorm node": (lambda: two(pyg.GraphConv, pyg.LayerNorm(HIDDEN, mode="node")), PLAIN),
    "GraphNorm": (lambda: two(pyg.GraphConv, pyg.GraphNorm(HIDDEN)), PLAIN),
    "PairNorm": (lambda: two(pyg.GraphConv, pyg.PairNorm()), PLAIN),
    "PairNorm, each": (lambda: two(pyg.GraphConv, pyg.PairNorm(scale_individually=True)), PLAIN),
    "InstanceNorm": (
        lambda: two(pyg.GraphConv, pyg.InstanceNorm(HIDDEN, affine=True, track_running_stats=True)),
        PLAIN,
    ),
    "MeanSubtractionNorm": (lambda: two(pyg.GraphConv, pyg.MeanSubtractionNorm()), PLAIN),
    "GraphSizeNorm": (lambda: two(pyg.GraphConv, pyg.GraphSizeNorm()), PLAIN),
    "DiffGroupNorm": (lambda: two(pyg.GraphConv, pyg.DiffGroupNorm(HIDDEN, 3)), PLAIN),
}


def build(name: str) -> tuple[nn.Module, tuple[str, ...]]:
    """The model, with the same weights wherever it is built, and the names of its inputs."""
    make, inputs = MODELS[name]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return make(), inputs
