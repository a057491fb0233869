"""Models of many graphs in a batch, of several feature sets on a graph, and of attention over all nodes."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

from tests.support.pyg_case import (
    CLASSES,
    FEATURES,
    NODES,
    make_graph,
)

HIDDEN, TIMES = 8, 3


class Normed(nn.Module):
    """A norm over each graph of a batch."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.first, self.norm, self.second = pyg.SAGEConv(FEATURES, HIDDEN), norm, pyg.SAGEConv(HIDDEN, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.second(self.norm(self.first(x, edge_index), batch).relu(), edge_index)


class Timed(nn.Module):
    """Features ``[N, T, F]``: the layers take them as ``[T, N, F]``, and share their weights over time."""

    def __init__(self, conv: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.first, self.second = conv(FEATURES, HIDDEN), conv(HIDDEN, CLASSES)

    def forward(self, series: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(series.transpose(0, 1), edge_index).relu()
        return self.second(h, edge_index).transpose(0, 1)


def polynormer() -> nn.Module:
    model = pyg.Polynormer(
        FEATURES, HIDDEN, CLASSES, local_layers=2, in_dropout=0.0, dropout=0.0, global_dropout=0.0, heads=1
    )
    model._global = True
    return model


BATCH = ("x", "edge_index", "batch")
ATTENDING = {"SGFormer", "Polynormer"}
"""Models that run on one graph of all nodes."""
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[str, ...]]] = {
    **{
        type(norm).__name__: (lambda norm=norm: Normed(copy.deepcopy(norm)), BATCH)
        for norm in (pyg.GraphNorm(HIDDEN), pyg.LayerNorm(HIDDEN), pyg.PairNorm(), pyg.MeanSubtractionNorm(),
                     pyg.GraphSizeNorm(), pyg.InstanceNorm(HIDDEN))
    },
    "PairNorm, each": (lambda: Normed(pyg.PairNorm(scale_individually=True)), BATCH),
    "InstanceNorm, learnt": (
        lambda: Normed(pyg.InstanceNorm(HIDDEN, affine=True, track_running_stats=True)), BATCH),
    "SAGEConv over time": (lambda: Timed(pyg.SAGEConv), ("series", "edge_index")),
    "GCNConv over time": (lambda: Timed(pyg.GCNConv), ("series", "edge_index")),
    "SGFormer": (lambda: pyg.SGFormer(FEATURES, HIDDEN, CLASSES, trans_num_heads=2, trans_dropout=0.0, gnn_dropout=0.0),
                 BATCH),
    "Polynormer": (polynormer, BATCH),
}  # fmt: skip


def graph_of(name: str) -> dict[str, Tensor]:
    """Graphs 0 to 3 side by side, which the workers share, or one graph of all nodes."""
    graph = make_graph()
    graph["edge_index"] = graph["edge_index"] // 4 * 4 + graph["edge_index"][1] % 4
    graph["edge_index"] = graph["edge_index"].clamp(max=NODES - 1)
    generator = torch.Generator().manual_seed(5)
    series = torch.randn(NODES, TIMES, FEATURES, generator=generator)
    return graph | {"batch": torch.arange(NODES) % (1 if name in ATTENDING else 4), "series": series}
