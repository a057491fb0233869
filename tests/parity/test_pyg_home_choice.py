"""PyG models under `--wire.first-layer auto`: the price decides, and what would not be exact stays as it is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn

import halowire
from halowire.errors import InputError
from halowire.events import SETUP, TRAIN, read_events
from halowire.pyg.distribute import state_of
from halowire.pyg.hetero_data import cut_hetero
from halowire.pyg.home_choice import DRAWN, NO_ROWS, SUMS_ANEW, TYPED
from halowire.pyg.shard_data import cut_data
from halowire.report import write_report
from halowire.wire import Machines, run_threads
from tests.support.fit_case import make_data
from tests.support.hetero_case import build_hetero, make_hetero, make_owners
from tests.support.home_models import HIDDEN, LOCAL, Net, Sorted, train_here
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
from tests.support.worker_counts import two_and_three

SLOW_LINK, FAST_LINK = {"wire.link": 1.0}, {"wire.link": 1e7}
EXCHANGE = {"wire.first_layer": "exchange"}
ON_WIRE = SLOW_LINK | {"wire.cover": "off"}


def deep() -> nn.Module:
    return pyg.GraphSAGE(FEATURES, HIDDEN, 3, CLASSES)


def chosen(
    make: Callable[[], nn.Module], settings: dict[str, Any], recipe: str = "exact", hosts: int = 1
) -> tuple[list[dict[str, Any]], Any]:
    """A pass of every worker, and what was chosen for the first layer, the same on all of them."""
    workers, model = 2 * hosts, seeded(make)

    def work(transport: Any) -> dict[str, Any]:
        transport.machines = Machines.split(workers, hosts)
        return train_here(transport, model, settings, 2, recipe=recipe)

    parts = run_threads(workers, work)
    assert all(part["first"] == parts[0]["first"] for part in parts)
    return parts, parts[0]["first"]


def sent(parts: list[dict[str, Any]]) -> int:
    return sum(part["sent"] for part in parts)


@pytest.mark.parametrize("cover", ["off", "on", "auto"])
@pytest.mark.parametrize("make", [lambda: Net(pyg.SAGEConv), deep], ids=["two layers", "three layers"])
def test_the_price_decides_and_counts_the_bytes_that_an_epoch_saves(make, cover):
    """A slow link is worth the products, a fast one is not; either way the result is that of plain PyG."""
    want, settings = run_plain(seeded(make), make_graph(), ("x", "edge_index")), {"wire.cover": cover}
    home, slow = chosen(make, settings | SLOW_LINK)
    rows, fast = chosen(make, settings | FAST_LINK)
    assert slow.at_home and slow.price.pays and slow.why == "which is predicted to pay"
    assert not fast.at_home and fast.why == "because computing it at home is not predicted to pay"
    assert sent(rows) - sent(home) == slow.price.saved == fast.price.saved > 0
    assert (sent(home) == 0) == (make is not deep)
    compare(home, want)
    compare(rows, want)


@pytest.mark.parametrize("recipe", ["half", "two-levels"])
def test_bytes_are_those_of_the_recipe(recipe):
    home, choice = chosen(deep, {"wire.cover": "off"} | SLOW_LINK, recipe)
    rows, _ = chosen(deep, {"wire.cover": "off"} | EXCHANGE, recipe)
    assert choice.at_home and sent(rows) - sent(home) == choice.price.saved > 0


def test_between_machines_the_network_and_the_memory_count_apart():
    _, one = chosen(deep, {"wire.cover": "off"} | SLOW_LINK | {"mesh.hosts": 1}, hosts=2)
    _, two = chosen(deep, {"wire.cover": "off"} | SLOW_LINK | {"mesh.hosts": 2}, hosts=2)
    assert one.at_home and two.at_home and one.price.saved_within == 0
    assert 0 < two.price.saved < one.price.saved and two.price.saved_within > 0


@pytest.mark.parametrize("settings", [{"wire.plain": True}, EXCHANGE], ids=["plain", "exchange"])
def test_plain_and_exchange_send_every_row(settings):
    parts, choice = chosen(deep, settings)
    assert not choice.at_home and choice.price is None and choice.why.startswith("as --wire.")
    assert sent(parts) > 0


@pytest.mark.parametrize("first", [0.0, 0.4], ids=["hidden rows", "features"])
def test_a_model_whose_dropout_would_draw_otherwise_stays_as_it_is(first):
    """Its result is bit for bit the one that it has with all rows sent: torch's generator draws."""

    def make() -> nn.Module:
        return Net(pyg.SAGEConv, drop=0.0 if first else 0.5, first=first)

    found = []
    for settings in (SLOW_LINK, EXCHANGE):
        torch.manual_seed(3)
        found.append(chosen(make, settings | {"wire.cover": "off"}))
    (auto, choice), (rows, _) = found
    assert not choice.at_home and choice.why == DRAWN and choice.price is None
    assert sent(auto) == sent(rows) > 0


class Otherwise(nn.Module):
    """Drops hidden rows in a way that has no draws by node."""

    def __init__(self, drop: Callable[[torch.Tensor, bool], torch.Tensor]) -> None:
        super().__init__()
        self.one, self.two = pyg.SAGEConv(FEATURES, HIDDEN), pyg.SAGEConv(HIDDEN, CLASSES)
        self.three = pyg.SAGEConv(FEATURES, CLASSES)
        self.drop = drop

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        kept = self.three(self.three.lin_r.weight.sum() + x, edge_index)
        return kept + self.two(self.drop(self.one(x, edge_index).tanh() * 2, self.training), edge_index)


def alpha(h: torch.Tensor, training: bool) -> torch.Tensor:
    return F.alpha_dropout(h, 0.5, training)


def in_place(h: torch.Tensor, training: bool) -> torch.Tensor:
    return F.dropout(h, 0.5, training, inplace=True)


@pytest.mark.parametrize("drop", [alpha, in_place])
def test_dropout_that_cannot_draw_by_node_has_its_rows_sent(drop):
    """The other rows are computed at home, and the pass exchanges what was rehearsed."""
    for settings in (LOCAL, SLOW_LINK | {"wire.cover": "off"}):
        parts, choice = chosen(lambda: Otherwise(drop), settings)
        assert choice.at_home and all(part["sent"] > 0 for part in parts)


class Reweighted(nn.Module):
    """Weights of edges that forward makes anew in every pass, and always the same."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = pyg.GraphConv(FEATURES, HIDDEN), pyg.GraphConv(HIDDEN, CLASSES)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x, edge_index, 2 * edge_weight).relu(), edge_index, edge_weight)


def test_weights_that_are_made_anew_would_have_sums_sent_in_every_pass():
    names, model = ("x", "edge_index", "edge_weight"), seeded(Reweighted)

    def work(transport: Any, settings: dict[str, Any]) -> Any:
        return train_here(transport, model, settings, names=names)

    with pytest.raises(InputError, match=r"made anew in every pass; pass data\.edge_index and weights of data"):
        run_threads(2, lambda transport: work(transport, LOCAL))
    parts = run_threads(2, lambda transport: work(transport, SLOW_LINK))
    assert parts[0]["first"].why == SUMS_ANEW and sent(parts) > 0
    compare(parts, run_plain(model, make_graph(), names))


def test_a_model_without_such_rows_says_so():
    parts, choice = chosen(Sorted, SLOW_LINK)
    assert choice.why == NO_ROWS and sent(parts) > 0


def test_sums_of_features_come_once_for_every_list_of_edges():
    """Training and evaluation on two cuts of one graph, in turn: after one pass of each, set-up is over."""
    model = seeded(lambda: Net(pyg.SAGEConv))

    def work(transport: Any) -> tuple[list[int], int]:
        given = make_graph()
        fewer = given | {"edge_index": given["edge_index"][:, ::2]}
        for name in ("edge_weight", "edge_attr", "edge_type"):
            fewer[name] = given[name][::2]
        parts = [cut_data(one, owners("random", 2), transport) for one in (fewer, given)]
        own, marks = halowire.distribute(copy.deepcopy(model), parts[0], "exact", ON_WIRE), []
        for _ in range(3):
            parts[0].mean(own.train()(parts[0].x, parts[0].edge_index).square().sum(1)).backward()
            with torch.no_grad():
                own.eval()(parts[1].x, parts[1].edge_index)
            marks.append(transport.ledger.totals[SETUP])
        assert state_of(own).savings.at_home
        return marks, transport.ledger.totals[TRAIN]

    for marks, trained in run_threads(2, work):
        assert marks[0] == marks[1] == marks[2] and trained == 0


CHANGES = {
    "scaled": lambda data: data.x * 1.1,
    "copied": lambda data: data.x.clone(),
    "set anew": lambda data: setattr(data, "x", data.x * 1.1) or data.x,
}


@two_and_three
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("layer", [pyg.GCNConv, pyg.SAGEConv])
def test_features_that_are_made_outside_of_the_model_travel_and_those_of_the_graph_do_not(layer, change, workers):
    """Calls with data.x and with other features take turns; each has the exchanges that it was checked with."""
    model, given = seeded(lambda: Net(layer)), make_graph()
    x = given["x"] * (1.0 if change == "copied" else 1.1)
    want = run_plain(model, given | {"x": x}, ("x", "edge_index"))

    def work(transport: Any) -> dict[str, Any]:
        data = cut_data(given, owners("random", workers), transport)
        own, marks, x = halowire.distribute(copy.deepcopy(model), data, "exact", ON_WIRE), [], data.x
        for features in (x, CHANGES[change](data), x, CHANGES[change](SimpleNamespace(x=x))):
            own.train().zero_grad()
            before = transport.ledger.totals[TRAIN]
            out = own(features, data.edge_index)
            loss = data.mean((out * weights_of(want["out"])[data.rows]).square())
            loss.backward()
            marks.append(transport.ledger.totals[TRAIN] - before)
        assert marks[2] == 0 < marks[3], "after the first pass, which exchanges degrees"
        with torch.no_grad():
            outs = {"out": out.detach(), "loss": loss.detach(), "eval": own.eval()(features, data.edge_index)}
        grads = {name: value.grad for name, value in own.named_parameters()}
        return outs | {"rows": data.rows, "grads": grads, "state": own.state_dict()}

    compare(run_threads(workers, work), want)


class Optional(Net):
    """Forward has an argument that makes another kind of call."""

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, flag: bool = False) -> torch.Tensor:
        return super().forward(x, edge_index)


def test_features_that_some_workers_copy_are_refused_on_all():
    def work(transport: Any) -> None:
        data = cut_data(make_graph(), owners("random", 2), transport)
        own = halowire.distribute(Optional(pyg.SAGEConv), data)
        with pytest.raises(InputError, match=r"data\.x\.clone\(\)\).*on all workers, or on none"):
            own(data.x if transport.rank else data.x.clone(), data.edge_index, flag=True)

    run_threads(2, work)


def test_a_copied_model_has_the_sums_of_its_original():
    model = seeded(lambda: Net(pyg.SAGEConv))

    def work(transport: Any) -> None:
        data = cut_data(make_graph(), owners("random", 2), transport)
        own = halowire.distribute(copy.deepcopy(model), data, "exact", ON_WIRE)
        out = own(data.x, data.edge_index)
        before, again = transport.ledger.totals[SETUP], copy.deepcopy(own)(data.x, data.edge_index)
        assert torch.equal(again.detach(), out.detach()) and transport.ledger.totals[SETUP] == before

    run_threads(2, work)


def test_a_graph_of_several_types_is_refused_with_local_and_keeps_its_rows_with_auto():
    def work(transport: Any, settings: dict[str, Any]) -> Any:
        data = cut_hetero(make_hetero(), make_owners(2), transport)
        return state_of(halowire.distribute(build_hetero("to_hetero SAGE"), data, "exact", settings)).savings.first

    with pytest.raises(InputError, match=r"in a graph of several types owners send them; use --wire\.first-layer exch"):
        run_threads(2, lambda transport: work(transport, LOCAL))
    assert [first.why for first in run_threads(2, lambda transport: work(transport, SLOW_LINK))] == [TYPED] * 2


@pytest.mark.slow
@pytest.mark.parametrize("task", ["regression", "link"])
def test_fit_of_other_tasks_predicts_as_without(tmp_path, task):
    torch.manual_seed(5)
    data, outs = make_data(), 1 if task == "regression" else 8
    model = pyg.models.GraphSAGE(5, 8, 2, outs)
    data.y = torch.randn(data.num_nodes) if task == "regression" else data.y
    found = []
    for name, first in (("home", SLOW_LINK), ("rows", EXCHANGE)):
        settings = {"epochs": 3, "eval.every": 3, "threads": 1, "wire.cover": "off"} | first
        found.append(halowire.fit(model, data, 2, task=task, settings=settings, out=tmp_path / name, quiet=True))
    home, rows = found
    first = home.summary["savings"]["first_layer"]
    left = home.summary["wire_bytes_per_epoch"]  # of pairs of nodes, for links
    assert first["at_home"] and round(rows.summary["wire_bytes_per_epoch"] - left) == first["saved"] > 0
    assert (left == 0) == (task == "regression")
    assert_close("predictions", home.predictions, rows.predictions)


def fit_here(folder: Path, epochs: int = 4, resume: bool = False, **first: Any) -> Any:
    torch.manual_seed(5)
    settings = {"epochs": epochs, "eval.every": 2, "threads": 1, "wire.cover": "off"} | first
    model = pyg.models.GraphSAGE(5, 8, 3, 3)
    return halowire.fit(model, make_data(), 2, settings=settings, out=folder, resume=resume, quiet=True)


@pytest.mark.slow
def test_fit_chooses_says_so_and_predicts_as_without(tmp_path):
    home, rows = fit_here(tmp_path / "home", **SLOW_LINK), fit_here(tmp_path / "rows", **EXCHANGE)
    assert_close("predictions", home.predictions, rows.predictions)
    first = home.summary["savings"]["first_layer"]
    assert first["at_home"] and first["why"] == "which is predicted to pay"
    assert rows.summary["wire_bytes_per_epoch"] - home.summary["wire_bytes_per_epoch"] == first["saved"] > 0
    start = next(event for event in read_events(tmp_path / "home/events-0.jsonl") if event["event"] == "start")
    assert start["wire_rows"] == {"at home 1": 0, "1": start["halo_rows"]}
    page = write_report([tmp_path / "home"], tmp_path / "page.html").read_text()
    assert "computed at home, by every worker for its own halo, which is predicted to pay" in page
    assert "at home 1" in page


@pytest.mark.slow
@pytest.mark.parametrize("late", [{}, {"freshness.mode": "delayed"}], ids=["fresh", "late"])
def test_a_resumed_fit_chooses_alike_and_ends_bit_for_bit_as_in_one_go(tmp_path, late):
    whole = fit_here(tmp_path / "one", **SLOW_LINK, **late)
    fit_here(tmp_path / "two", 2, **SLOW_LINK, **late)
    again = fit_here(tmp_path / "two", 4, True, **SLOW_LINK, **late)
    assert again.summary["savings"]["first_layer"]["at_home"]
    assert torch.equal(again.predictions, whole.predictions)
