"""PyG models whose halo rows travel as partial sums: workers equal plain PyG, and the bytes are those of a cover."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

import halowire
from halowire.events import EVAL, TRAIN
from halowire.graph import Graph
from halowire.partitioning import partition
from halowire.pyg.distribute import state_of
from halowire.pyg.shard_data import cut_data
from halowire.wire import HEADER_BYTES, run_threads
from tests.support.pyg_case import (
    CLASSES,
    FEATURES,
    compare,
    make_graph,
    make_owner,
    run_plain,
    seeded,
    weights_of,
)

HIDDEN = 8
ON = {"wire.cover": "on"}
PLAIN = {"wire.plain": True}


class Net(nn.Module):
    """A product of the features, which makes the first rows travel too, and two layers of one kind."""

    def __init__(self, make: Any, weighted: bool = False, first: Any = None) -> None:
        super().__init__()
        self.enter = nn.Linear(FEATURES, HIDDEN)
        self.one = make()
        self.two = (first or make)()
        self.leave = nn.Linear(HIDDEN, CLASSES)
        self.weighted = weighted

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: Any = None) -> torch.Tensor:
        start = self.enter(x).relu()
        h = start
        for layer in (self.one, self.two):
            given = (start,) if isinstance(layer, pyg.GCN2Conv) else ()
            h = layer(h, *given, edge_index, *((edge_weight,) if self.weighted else ())).relu()
        return self.leave(h)


def gin() -> nn.Module:
    return pyg.GINConv(nn.Linear(HIDDEN, HIDDEN))


LAYERS = {
    "GCNConv": lambda: Net(lambda: pyg.GCNConv(HIDDEN, HIDDEN)),
    "GCNConv, weights": lambda: Net(lambda: pyg.GCNConv(HIDDEN, HIDDEN), True),
    "SAGEConv mean": lambda: Net(lambda: pyg.SAGEConv(HIDDEN, HIDDEN)),
    "SAGEConv sum": lambda: Net(lambda: pyg.SAGEConv(HIDDEN, HIDDEN, aggr="sum")),
    "GraphConv, weights": lambda: Net(lambda: pyg.GraphConv(HIDDEN, HIDDEN), True),
    "GINConv": lambda: Net(gin),
    "GCN2Conv": lambda: Net(lambda: pyg.GCN2Conv(HIDDEN, 0.1)),
    "APPNP": lambda: Net(lambda: pyg.APPNP(2, 0.1)),
    "SGConv": lambda: Net(lambda: pyg.SGConv(HIDDEN, HIDDEN, 2)),
    "SSGConv": lambda: Net(lambda: pyg.SSGConv(HIDDEN, HIDDEN, 0.1, 2)),
    "TAGConv": lambda: Net(lambda: pyg.TAGConv(HIDDEN, HIDDEN, 2)),
    "LGConv": lambda: Net(pyg.LGConv),
    "ChebConv": lambda: Net(lambda: pyg.ChebConv(HIDDEN, HIDDEN, 3)),
    "GCNConv, then SAGEConv": lambda: Net(
        lambda: pyg.GCNConv(HIDDEN, HIDDEN), first=lambda: pyg.SAGEConv(HIDDEN, HIDDEN)
    ),
    "GATConv, then SAGEConv": lambda: Net(
        lambda: pyg.GATConv(HIDDEN, HIDDEN), first=lambda: pyg.SAGEConv(HIDDEN, HIDDEN)
    ),
}
"""Models whose layers add rows up with weights that need no gradient."""
QUICK = ("GCNConv, weights", "SAGEConv mean", "TAGConv", "GCNConv, then SAGEConv", "GATConv, then SAGEConv")
ATTENTION = {"GATConv, then SAGEConv": 1}
"""How many of the exchanges of a model keep their rows."""
NORMS = {"SGConv": 2, "SSGConv": 2, "TAGConv": 2, "LGConv": 2, "ChebConv": 2}
"""How often a pass reads the degrees of the halo's nodes, where PyG normalises the edges anew in every pass."""


def owners(method: str, workers: int) -> torch.Tensor:
    """The owner of every node of the graph, by ``method``."""
    given = make_graph()
    if method == "random":
        return make_owner(workers)
    graph = Graph.from_edge_index(given["edge_index"], len(given["x"]))
    return partition(graph, workers, method, 0).owner


def train_here(
    transport: Any, model: nn.Module, settings: dict[str, Any], method: str = "random", passes: int = 2,
    names: tuple[str, ...] = ("x", "edge_index"),
) -> dict[str, Any]:  # fmt: skip
    """The last of some passes: output, loss, gradients, bytes; then an evaluation."""
    data = cut_data(make_graph(), owners(method, transport.size), transport)
    own = halowire.distribute(copy.deepcopy(model), data, "exact", settings).train()
    inputs = [getattr(data, name) for name in names]
    state = {name: value.clone() for name, value in own.state_dict().items()}
    ledger, sent = transport.ledger, 0
    for _ in range(passes):
        own.load_state_dict(state)
        own.zero_grad()
        before = ledger.totals[TRAIN]
        out = own(*inputs)
        loss = data.mean((out * weights_of(torch.empty(len(make_graph()["x"]), CLASSES))[data.rows]).square())
        loss.backward()
        sent = ledger.totals[TRAIN] - before
    found = {"out": out.detach(), "loss": loss.detach(), "rows": data.rows, "sent": sent}
    found |= {"grads": {name: value.grad for name, value in own.named_parameters()}}
    found |= {"state": {name: value.clone() for name, value in own.state_dict().items()}}
    own.eval()
    before = ledger.totals[EVAL]
    with torch.no_grad():
        found |= {"eval": own(*inputs)}
    found |= {"eval_sent": ledger.totals[EVAL] - before, "attached": state_of(own).savings}
    exchanges = state_of(own).exchanges[0]
    found |= {"halo": data.shard.num_halo, "covered": sum(data.shard.cover_counts()), "widths": HIDDEN}
    found |= {"made": sorted(exchanges._sums), "peers": sum(count > 0 for count in data.shard.recv_counts)}
    transport.settle()
    return found


def equal_plain(name: str, workers: int, method: str) -> list[dict[str, Any]]:
    names = ("x", "edge_index", "edge_weight") if "weights" in name else ("x", "edge_index")
    model = seeded(LAYERS[name])
    parts = run_threads(workers, lambda transport: train_here(transport, model, ON, method, names=names))
    compare(parts, run_plain(model, make_graph(), names))
    return parts


def bytes_follow(name: str, parts: list[dict[str, Any]]) -> None:
    """Rows and partial sums travel in the place of rows, forward and backward; in evaluation, forward."""
    hops = {"APPNP": 2, "SGConv": 2, "SSGConv": 2, "TAGConv": 2, "ChebConv": 2}.get(name, 1)
    rows = ATTENTION.get(name, 0)
    whole, covered = (sum(part[key] for part in parts) for key in ("halo", "covered"))
    headers = HEADER_BYTES * sum(part["peers"] for part in parts)
    want = 4 * HIDDEN * (rows * whole + (2 - rows) * hops * covered) + 2 * hops * headers
    norms = NORMS.get(name, 0) * (4 * whole + headers)
    assert covered < whole
    assert sum(part["eval_sent"] for part in parts) == want + norms
    assert sum(part["sent"] for part in parts) == 2 * want + norms


@pytest.mark.parametrize("name", QUICK)
def test_workers_equal_plain_pyg_and_send_sums(name):
    bytes_follow(name, equal_plain(name, 2, "random"))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["metis", "random"])
@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_and_cut(name, workers, method):
    bytes_follow(name, equal_plain(name, workers, method))
