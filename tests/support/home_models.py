"""PyG models whose first layer is computed at home, and what a worker finds when it trains one."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn

import halowire
from halowire.events import EVAL, TRAIN
from halowire.pyg.distribute import state_of
from halowire.pyg.shard_data import cut_data
from tests.support.pyg_case import CLASSES, FEATURES, make_graph, owners, weights_of

HIDDEN = 8
LOCAL = {"wire.first_layer": "local", "wire.cover": "off"}
ALL = {"wire.first_layer": "local", "wire.cover": "on"}


class Net(nn.Module):
    """Two layers with a norm, ReLU and dropout between them; features may be dropped and projected before."""

    def __init__(self, kind: Any, norm: nn.Module | None = None, drop: float = 0.0, first: float = 0.0) -> None:
        super().__init__()
        self.one = kind(FEATURES, HIDDEN)
        self.two = kind(HIDDEN, CLASSES)
        self.norm = norm or nn.Identity()
        self.drop = drop
        self.first = first

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        h = self.one(F.dropout(x, self.first, self.training), edge_index)
        h = F.dropout(self.norm(h).relu(), self.drop, self.training)
        return self.two(h, edge_index)


class Projected(nn.Module):
    """A product and an activation before the first layer, as GCNII and APPNP have."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(FEATURES, HIDDEN)
        self.one = pyg.GCN2Conv(HIDDEN, 0.1)
        self.leave = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        start = self.enter(x).relu()
        return self.leave(self.one(start, start, edge_index).relu())


class Sorted(nn.Module):
    """Looks at the features of all nodes of a worker at once, in a way that no row can do by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.one = pyg.SAGEConv(FEATURES, HIDDEN, aggr="max")
        self.two = pyg.SAGEConv(HIDDEN, CLASSES)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x, edge_index).relu(), edge_index)


MODELS = {
    "GCNConv": (lambda: Net(pyg.GCNConv), 0),
    "SAGEConv, LayerNorm": (lambda: Net(pyg.SAGEConv, nn.LayerNorm(HIDDEN)), 0),
    "GraphConv, BatchNorm": (lambda: Net(pyg.GraphConv, nn.BatchNorm1d(HIDDEN)), 0),
    "GraphSAGE of three layers": (lambda: pyg.GraphSAGE(FEATURES, HIDDEN, 3, CLASSES), HIDDEN),
    "GATConv": (lambda: Net(pyg.GATConv), CLASSES),
    "GCN2Conv": (Projected, 0),
}
"""Models, and the columns of the rows that still travel."""


def train_here(
    transport: Any, model: nn.Module, settings: dict[str, Any], passes: int = 2, method: str = "random",
    recipe: str = "exact", names: tuple[str, ...] = ("x", "edge_index"),
) -> dict[str, Any]:  # fmt: skip
    """The last of some passes: output, loss, gradients, bytes; then an evaluation."""
    data = cut_data(make_graph(), owners(method, transport.size), transport)
    own = halowire.distribute(copy.deepcopy(model), data, recipe, settings).train()
    inputs = [getattr(data, name) for name in names]
    state = {name: value.clone() for name, value in own.state_dict().items()}
    ledger, sent, evaluated = transport.ledger, 0, 0
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
    evaluated = ledger.totals[EVAL] - before
    transport.settle()
    counts = data.shard.send_counts, data.shard.recv_counts
    peers = tuple(sum(count > 0 for count in of) for of in counts)
    found["first"] = state_of(own).savings.first
    return found | {"eval_sent": evaluated, "rows_sent": sum(counts[0]), "asked": sum(counts[1]), "peers": peers}
