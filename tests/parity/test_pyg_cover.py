"""PyG models whose halo rows travel as partial sums: workers equal plain PyG, and the bytes are those of a cover."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn
from torch.utils.checkpoint import checkpoint

import halowire
from halowire.errors import InputError
from halowire.events import read_events
from halowire.partitioning import read_shard
from halowire.pyg.distribute import state_of
from halowire.pyg.layer_sums import MOST_LISTS
from halowire.pyg.own_savings import NO_LAYER
from halowire.pyg.shard_data import cut_data, of_shard
from halowire.wire import HEADER_BYTES, run_threads
from tests.support.fit_case import make_data
from tests.support.pyg_case import (
    CLASSES,
    FEATURES,
    assert_close,
    compare,
    make_graph,
    make_owner,
    run_plain,
    seeded,
)
from tests.support.sum_layers import HIDDEN, LAYERS, Net, train_here

SENT = {"wire.first_layer": "exchange"}
ON = SENT | {"wire.cover": "on"}
PLAIN = {"wire.plain": True}


QUICK = ("GCNConv, weights", "SAGEConv mean", "TAGConv", "GCNConv, then SAGEConv", "GATConv, then SAGEConv")
ATTENTION = {"GATConv, then SAGEConv": 1}
"""How many of the exchanges of a model keep their rows."""
NORMS = {"SGConv": 2, "SSGConv": 2, "TAGConv": 2, "LGConv": 2, "ChebConv": 2}
"""How often a pass reads the degrees of the halo's nodes, where PyG normalises the edges anew in every pass."""


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
@pytest.mark.parametrize("method", ["metis", "random", "hypergraph"])
@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_and_cut(name, workers, method):
    bytes_follow(name, equal_plain(name, workers, method))


def test_a_shard_of_a_folder_and_a_cut_of_data_are_served_alike(tmp_path):
    """Shards that were cut before keep their cover, and their edges come sorted."""
    graph = halowire.block_model(120, 900, FEATURES, CLASSES, seed=2)
    halowire.partition(graph, 2, tmp_path, method="random")
    model, whole = seeded(LAYERS["GCNConv"]), halowire.load(graph)
    want = model.eval()(whole.x, whole.edge_index()).detach()

    def work(transport: Any) -> tuple[Any, ...]:
        data = of_shard(read_shard(tmp_path, transport.rank), transport, torch.device("cpu"))
        own = halowire.distribute(copy.deepcopy(model), data, "exact", ON)
        with torch.no_grad():
            out = own.eval()(data.x, data.edge_index)
        transport.settle()
        return data.rows, out, state_of(own).exchanges[0]._sums

    for rows, out, made in run_threads(2, work):
        assert_close("output", out, want[rows])
        assert sorted(made) == ["GCNConv:0"], "both layers have one list of sums"


def test_auto_covers_where_rows_are_saved_and_plain_never():
    model = seeded(LAYERS["SAGEConv mean"])

    def here(settings: dict[str, Any]) -> list[dict[str, Any]]:
        return run_threads(2, lambda transport: train_here(transport, model, settings))

    auto, on, plain, off = here(SENT), here(ON), here(PLAIN), here(SENT | {"wire.cover": "off"})
    assert [part["sent"] for part in auto] == [part["sent"] for part in on]
    assert sum(part["sent"] for part in on) < sum(part["sent"] for part in plain)
    assert [part["sent"] for part in plain] == [part["sent"] for part in off]
    rows, covered = (sum(part[key] for part in auto) for key in ("halo", "covered"))
    assert (auto[0]["attached"].cover.rows, auto[0]["attached"].cover.covered) == (rows, covered)
    assert "save" in auto[0]["attached"].cover.why
    assert not plain[0]["attached"].covers and plain[0]["made"] == []


class Fresh(nn.Module):
    """Weights of edges that are made anew in every pass."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net(lambda: pyg.GraphConv(HIDDEN, HIDDEN), True)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor) -> torch.Tensor:
        return self.net(x, edge_index, edge_weight * 2)


ROWS = {
    "attention": (lambda: Net(lambda: pyg.GATConv(HIDDEN, HIDDEN)), False),
    "a maximum": (lambda: Net(lambda: pyg.SAGEConv(HIDDEN, HIDDEN, aggr="max")), False),
    "weights made anew": (Fresh, True),
    "weights that are dropped": (lambda: Net(lambda: pyg.APPNP(2, 0.1, dropout=0.5)), False),
}


@pytest.mark.parametrize("name", ROWS)
def test_models_whose_rows_must_travel_keep_them_and_on_is_refused(name):
    make, weighted = ROWS[name]
    names = ("x", "edge_index", "edge_weight") if weighted else ("x", "edge_index")
    model = seeded(make)

    def here(settings: dict[str, Any]) -> list[dict[str, Any]]:
        return run_threads(2, lambda transport: train_here(transport, model, settings, passes=1, names=names))

    parts = here({})
    if "dropped" not in name:
        compare(parts, run_plain(model, make_graph(), names))
    assert parts[0]["made"] == [] and NO_LAYER in parts[0]["attached"].cover.why
    with pytest.raises(
        InputError, match="no layer of the model adds rows up with edges and weights that stay the same"
    ):
        here(ON)


def test_edges_that_a_loop_changes_are_agreed_on_anew_and_rows_travel_in_the_end():
    """Weights are doubled in place after every pass; the sums follow, until it was too often."""
    model = seeded(LAYERS["GraphConv, weights"])
    graph, wanted = make_graph(), []
    for number in range(MOST_LISTS + 2):
        scaled = graph | {"edge_weight": graph["edge_weight"] * 2**number}
        wanted.append(copy.deepcopy(model)(scaled["x"], scaled["edge_index"], scaled["edge_weight"]).detach())

    def work(transport: Any) -> Any:
        data = cut_data(make_graph(), make_owner(2), transport)
        own = halowire.distribute(copy.deepcopy(model), data, "exact", ON).train()
        outs = []
        for _ in wanted:
            outs.append(own(data.x, data.edge_index, data.edge_weight))
            data.mean(outs[-1].square()).backward()
            data.edge_weight.mul_(2)
        transport.settle()
        return data.rows, [out.detach() for out in outs], len(state_of(own).exchanges[0]._sums)

    for rows, outs, made in run_threads(2, work):
        assert made == MOST_LISTS
        for out, want in zip(outs, wanted, strict=True):
            assert_close("output", out, want[rows])


LATE = {"freshness.mode": "delayed", "rate.bits": 1, "wire.cover": "on", "seed": 3}


def test_late_one_bit_sums_go_on_from_a_state_bit_for_bit():
    """Messages under way are saved before and after the workers agreed on the sums anew."""
    model = seeded(LAYERS["GCNConv, then SAGEConv"])

    def work(transport: Any) -> list[torch.Tensor]:
        def made() -> tuple[Any, Any]:
            data = cut_data(make_graph(), make_owner(2), transport)
            return data, halowire.distribute(copy.deepcopy(model), data, "exact", LATE).train()

        def step(data: Any, own: nn.Module) -> torch.Tensor:
            own.zero_grad()
            out = own(data.x, data.edge_index)
            data.mean(out.square()).backward()
            with torch.no_grad():
                for value in own.parameters():
                    value.sub_(0.1 * value.grad)
            return torch.cat([out.detach().flatten(), *(value.grad.flatten() for value in own.parameters())])

        data, own = made()
        for _ in range(3):
            step(data, own)
        exchange = state_of(own).exchanges[0]
        state = {name: value.clone() for name, value in exchange.state().items()}
        weights = {name: value.clone() for name, value in own.state_dict().items()}
        assert any(name.startswith("sums/SAGEConv:0/flight") for name in state)
        want = [step(data, own) for _ in range(3)]
        data, own = made()
        own.load_state_dict(weights)
        state_of(own).epoch = 3
        again = state_of(own).exchange_of((data.x, data.edge_index))
        again.load_state(state)
        kept = again.state()
        assert kept.keys() == state.keys() and all(torch.equal(kept[name], state[name]) for name in kept)
        got = [step(data, own) for _ in range(3)]
        transport.settle()
        return [one - other for one, other in zip(want, got, strict=True)]

    for differences in run_threads(2, work):
        assert all(not difference.any() for difference in differences)


def test_layers_that_run_again_in_backward_read_rows():
    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net(lambda: pyg.SAGEConv(HIDDEN, HIDDEN))

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            net = self.net
            h = net.one(net.enter(x).relu(), edge_index).relu()
            h = checkpoint(lambda rows: net.two(rows, edge_index), h, use_reentrant=False)
            return net.leave(h.relu())

    model = seeded(Again)
    parts = run_threads(3, lambda transport: train_here(transport, model, ON))
    compare(parts, run_plain(model, make_graph(), ("x", "edge_index")))
    assert parts[0]["made"] == ["SAGEConv:0"]


@pytest.mark.slow
def test_fit_sends_sums_and_predicts_as_without(tmp_path):
    torch.manual_seed(5)
    model, data = pyg.models.GraphSAGE(5, 8, 3, 3), make_data()

    def fit(name: str, cover: str) -> Any:
        settings = SENT | {"epochs": 4, "eval.every": 2, "threads": 1, "wire.cover": cover}
        return halowire.fit(model, data, 2, settings=settings, out=tmp_path / name, quiet=True)

    on, off = fit("on", "on"), fit("off", "off")
    assert_close("predictions", on.predictions, off.predictions)
    assert on.summary["savings"]["cover"]["used"] and not off.summary["savings"]["cover"]["used"]
    assert on.summary["wire_bytes_per_epoch"] < off.summary["wire_bytes_per_epoch"]
    start = next(event for event in read_events(tmp_path / "on/events-0.jsonl") if event["event"] == "start")
    assert list(start["wire_rows"]) == ["1", "2"] and max(start["wire_rows"].values()) < start["halo_rows"]
