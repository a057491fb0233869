"""PyG models whose first rows are computed at home: nothing of them travels, and many workers equal plain PyG."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn

import halowire
from halowire.errors import InputError
from halowire.events import EVAL, TRAIN
from halowire.pyg.distribute import state_of
from halowire.pyg.home_rows import Home, HomeRows, bare
from halowire.pyg.shard_data import cut_data
from halowire.wire import HEADER_BYTES, run_threads
from tests.support.pyg_case import (
    CLASSES,
    FEATURES,
    assert_close,
    compare,
    make_graph,
    owners,
    run_plain,
    seeded,
    weights_of,
)

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


CUTS = [(2, "random"), *(pytest.param(workers, method, marks=pytest.mark.slow) for workers, method in (
    (3, "random"), (4, "random"), (2, "metis"), (3, "metis"), (4, "metis"), (3, "hypergraph"), (4, "hypergraph"),
))]  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("workers", "method"), CUTS)
def test_workers_equal_plain_pyg_and_send_only_later_layers(name, workers, method):
    make, columns = MODELS[name]
    model = seeded(make)
    parts = run_threads(workers, lambda transport: train_here(transport, model, LOCAL, method=method))
    compare(parts, run_plain(model, make_graph(), ("x", "edge_index")))
    for part in parts:
        rows, out, back = part["rows_sent"] + part["asked"], *part["peers"]
        assert part["sent"] == (4 * columns * rows + (out + back) * HEADER_BYTES if columns else 0)
        assert part["eval_sent"] == (4 * columns * part["rows_sent"] + out * HEADER_BYTES if columns else 0)


class Drawn(nn.Module):
    """Dropout that draws by the ids of nodes and of edges, so that one process draws what many workers do."""

    def __init__(self) -> None:
        super().__init__()
        self.random, self.drop = halowire.Random(seed=3), halowire.DropEdges(0.3)
        self.one, self.two = pyg.SAGEConv(FEATURES, HIDDEN), pyg.GCNConv(HIDDEN, HIDDEN)
        self.three, self.four = pyg.SAGEConv(HIDDEN, HIDDEN), pyg.SAGEConv(HIDDEN, CLASSES)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        h = self.one(x, edge_index).relu()
        h = self.three(self.two(h, edge_index).relu(), edge_index).relu()
        kept = self.random.nodes(edge_index, x.size(0), HIDDEN) > 0.4
        edges = self.drop(edge_index)
        return self.four(h * kept / 0.6, edges)


@pytest.mark.parametrize(("workers", "method", "settings"), [
    (3, "metis", ALL), *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        (2, "random", LOCAL), (4, "metis", LOCAL), (4, "hypergraph", ALL), (4, "random", ALL | {"mesh.hosts": 2}),
    )),
])  # fmt: skip
def test_dropout_that_draws_by_node_is_that_of_one_process(workers, method, settings):
    model = seeded(Drawn)
    parts = run_threads(workers, lambda t: train_here(t, model, settings, passes=1, method=method))
    compare(parts, run_plain(model, make_graph(), ("x", "edge_index")))


@pytest.mark.parametrize("first", [0.0, 0.4], ids=["hidden rows", "features"])
def test_dropout_is_that_of_the_node_whoever_computes_it(first):
    """A node's values are dropped alike on all workers, so that the number of workers changes nothing."""
    model = seeded(lambda: Net(pyg.SAGEConv, drop=0.0 if first else 0.5, first=first))
    outs = []
    for workers in (2, 3):
        parts = run_threads(workers, lambda transport: train_here(transport, model, LOCAL))
        whole = torch.empty(len(make_graph()["x"]), CLASSES)
        for part in parts:
            whole[part["rows"]] = part["out"]
        outs.append((whole, parts[0]["grads"], [part["sent"] for part in parts]))
    assert_close("output", outs[1][0], outs[0][0])
    for name, grad in outs[0][1].items():
        assert_close(name, outs[1][1][name], grad)
    # Features that are dropped have another sum in every pass, so their layer is exchanged after it.
    assert (outs[0][2] == [0, 0]) == (first == 0)


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [n for n, case in MODELS.items() if case[1] and n != "GATConv"])
def test_later_layers_send_partial_sums(name, workers):
    model = seeded(MODELS[name][0])
    both = run_threads(workers, lambda transport: train_here(transport, model, ALL))
    compare(both, run_plain(model, make_graph(), ("x", "edge_index")))
    home = run_threads(workers, lambda transport: train_here(transport, model, LOCAL))
    assert 0 < sum(part["sent"] for part in both) < sum(part["sent"] for part in home)


class Sorted(nn.Module):
    """Looks at the features of all nodes of a worker at once, in a way that no row can do by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.one = pyg.SAGEConv(FEATURES, HIDDEN, aggr="max")
        self.two = pyg.SAGEConv(HIDDEN, CLASSES)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x, edge_index).relu(), edge_index)


def test_a_model_that_sends_all_its_rows_is_refused_with_local_and_trained_with_auto():
    with pytest.raises(InputError, match="this model sends all of its rows all the same"):
        run_threads(2, lambda transport: train_here(transport, seeded(Sorted), LOCAL, 1))
    parts = run_threads(2, lambda transport: train_here(transport, seeded(Sorted), {}, 1))
    assert all(part["sent"] > 0 for part in parts)


def test_rows_that_were_changed_in_place_no_longer_know_their_halo():
    class Part:
        passing = None

    home = Home(Part())
    rows = HomeRows.of(torch.ones(3, 2), torch.ones(4, 2), home)
    assert rows.knows(home.bridge) and isinstance(rows + 1, HomeRows) and not isinstance(rows[0], HomeRows)
    assert isinstance(torch.cat([rows, rows], 1), HomeRows) and not isinstance(torch.cat([rows, rows]), HomeRows)
    assert not isinstance(rows + torch.ones(3, 2), HomeRows), "a tensor of this worker's rows has none of the halo's"
    later = rows.relu_()
    bare(rows).mul_(2)
    assert not rows.knows(home.bridge) and not isinstance(rows + 1, HomeRows)
    assert isinstance(later, HomeRows)
