"""Many graphs in one batch, several feature sets on one graph, and linear attention over all nodes."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

import halowire
from halowire.pyg.shard_data import cut_data
from halowire.wire import Transport, run_threads
from tests.support.pyg_case import (
    CLASSES,
    FEATURES,
    NODES,
    compare,
    make_graph,
    make_owner,
    run_part,
    run_plain,
    seeded,
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


@pytest.mark.parametrize("parts", [pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("name", CASES)
def test_equal_to_plain_pyg(name, parts):
    make, names = CASES[name]
    model, graph, owner = seeded(make), graph_of(name), make_owner(parts)
    want = run_plain(model, graph, names)
    compare(run_threads(parts, lambda transport: run_part(transport, model, graph, owner, names)), want)


@pytest.mark.parametrize("name", ["GraphNorm", "GCNConv over time", "SGFormer"])
def test_coded_rows_learn(name):
    make, names = CASES[name]
    model, graph = seeded(make), graph_of(name)

    def work(transport: Transport) -> list[float]:
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data, "halowire")
        optimizer = torch.optim.Adam(own.parameters(), lr=0.05)
        losses = []
        for _ in range(15):
            optimizer.zero_grad()
            loss = data.mean((own(*(getattr(data, key) for key in names)) + 1).square())
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        transport.drain()
        return losses

    losses = run_threads(2, work)[0]
    assert losses[-1] < 0.8 * losses[0]
