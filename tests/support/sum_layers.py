"""PyG models whose layers add rows up, so that partial sums may travel, and what a worker finds when it trains one."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import nn

import halowire
from halowire.events import EVAL, TRAIN
from halowire.pyg.distribute import state_of
from halowire.pyg.shard_data import cut_data
from tests.support.pyg_case import CLASSES, FEATURES, make_graph, owners, weights_of

HIDDEN = 8


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
