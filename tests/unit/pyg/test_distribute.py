"""How a distributed model is called, copied and set: habits that a shard would get wrong are right, or refused."""

from __future__ import annotations

import copy
from collections import OrderedDict, namedtuple

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

import halowire
from halowire.errors import InputError
from halowire.pyg.distribute import state_of
from halowire.pyg.shard_data import cut_data
from halowire.wire import Transport, run_threads
from tests.support.pyg_case import FEATURES, assert_close, make_graph, make_owner, place, plain_gradients, seeded
from tests.support.pyg_models import HIDDEN, two
from tests.support.worker_counts import two_and_three

Pair = namedtuple("Pair", ["first", "second"])


class Shaped(nn.Module):
    """A model whose output is put into something by ``shape``."""

    def __init__(self, shape) -> None:
        super().__init__()
        self.inner, self.shape = two(pyg.SAGEConv), shape

    def forward(self, x: Tensor, edge_index: Tensor):
        return self.shape(self.inner(x, edge_index))


class Timed(nn.Module):
    """A model of the rows and the time."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = two(pyg.SAGEConv)

    def forward(self, x: Tensor, edge_index: Tensor, t) -> Tensor:
        return self.inner(x, edge_index) * (1 + 0.0 * t)


class Hops(nn.Module):
    """As many layers as asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.conv = nn.Linear(FEATURES, HIDDEN), pyg.SAGEConv(HIDDEN, HIDDEN)

    def forward(self, x: Tensor, edge_index: Tensor, hops: int) -> Tensor:
        h = self.first(x)
        for _ in range(hops):
            h = self.conv(h, edge_index)
        return h


class Encoder(nn.Module):
    """The habit of autoencoders: ``encode`` is called by name."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([pyg.SAGEConv(FEATURES, FEATURES) for _ in range(layers)])

    def encode(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for conv in self.convs:
            x = conv(x, edge_index)
        return x

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.encode(x, edge_index)


SHAPES = {
    "tuple": lambda out: (out, out),
    "list": lambda out: [out, out],
    "dict": lambda out: {"first": out, "second": None},
    "namedtuple": lambda out: Pair(out, out),
    "ordered dict": lambda out: OrderedDict(first=out),
    "nested": lambda out: {"first": [Pair(out, None)]},
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_kind_of_output_is_guarded(name):
    def leaf(out):
        while not isinstance(out, Tensor):
            out = next(iter(out.values())) if isinstance(out, dict) else out[0]
        return out

    def here(transport):
        data, model = place(transport, Shaped(SHAPES[name]))
        out = model(data.x, data.edge_index)
        assert type(out) is type(SHAPES[name](data.x))
        with pytest.raises(InputError, match=r"data\.mean"):
            leaf(out).square().mean().backward()

    run_threads(2, here)


def test_rows_with_a_gradient_outside_of_the_model_are_refused():
    def here(transport):
        data, model = place(transport, Encoder(1))
        out = model(data.x, data.edge_index)
        with pytest.raises(InputError, match="call the model itself"):
            out[data.edge_index[0]]

    run_threads(2, here)


@two_and_three
def test_a_wrapped_model_is_refused(on_workers, workers):
    assert on_workers(workers, wrapped_here) == ["leave the wrapper out"] * workers


def wrapped_here(rank: int) -> str:
    data, model = place(Transport(), two(pyg.SAGEConv))
    wrapped = nn.parallel.DistributedDataParallel(model)
    with pytest.raises(InputError, match="leave the wrapper out") as refused:
        wrapped(data.x, data.edge_index)
    with pytest.raises(InputError, match="leave the wrapper out"):
        halowire.distribute(nn.parallel.DistributedDataParallel(two(pyg.SAGEConv)), data)
    return "leave the wrapper out" if "wrapped in DistributedDataParallel" in str(refused.value) else str(refused.value)


def test_features_that_are_changed_travel_again():
    model, graph = seeded(lambda: two(pyg.SAGEConv)), make_graph()
    with torch.no_grad():
        want = copy.deepcopy(model)(3 * graph["x"], graph["edge_index"])

    def here(transport):
        data, own = place(transport, model)
        own(data.x, data.edge_index)
        data.x.mul_(3)
        return data.rows, [own(data.x, data.edge_index).detach() for _ in range(2)]

    for rows, outs in run_threads(2, here):
        for out in outs:
            assert_close("output", out, want[rows])


@pytest.mark.parametrize("recipe", ["exact", "half"])
def test_features_have_gradients(recipe):
    model, graph = seeded(lambda: two(pyg.SAGEConv)), make_graph()
    graph["x"].requires_grad_()
    copy.deepcopy(model)(graph["x"], graph["edge_index"]).square().mean().backward()
    want = graph["x"].grad

    def here(transport):
        data, own = place(transport, model, recipe)
        data.x.requires_grad_()
        data.mean(own(data.x, data.edge_index).square()).backward()
        return data.rows, data.x.grad

    for rows, grad in run_threads(2, here):
        tolerance = 1e-6 if recipe == "exact" else 0.02 * float(want.abs().max())
        assert float((grad - want[rows]).abs().max()) <= tolerance


@pytest.mark.parametrize("as_tensor", [False, True])
def test_a_number_that_changes_is_no_other_kind_of_call(as_tensor):
    """The rows of the last pass arrive, one pass late, although the time is another one."""
    model, graph = seeded(Timed), make_graph()
    want = copy.deepcopy(model)(graph["x"], graph["edge_index"], 0).detach()

    def here(transport):
        data, own = place(transport, model, "pipegcn")
        outs = []
        for epoch in range(3):
            out = own(data.x, data.edge_index, torch.tensor(float(epoch)) if as_tensor else epoch)
            data.mean(out.square()).backward()
            outs.append(out.detach())
        return data.rows, outs

    for rows, outs in run_threads(2, here):
        assert float((outs[0] - want[rows]).abs().max()) > 1e-3
        for out in outs[1:]:
            assert_close("output", out, want[rows])


def test_a_number_that_changes_the_exchanges_is_refused_under_a_recipe():
    def here(transport):
        data, own = place(transport, seeded(Hops), "half")
        own(data.x, data.edge_index, 2)
        with pytest.raises(InputError, match="other rows than when it was checked"):
            own(data.x, data.edge_index, 3)

    run_threads(2, here)


@pytest.mark.parametrize("recipe", ["exact", "half"])
def test_a_layer_may_be_unfrozen(recipe):
    model = seeded(lambda: two(pyg.SAGEConv))
    want = plain_gradients(model, lambda own, out: out.square().mean())

    def here(transport):
        frozen = copy.deepcopy(model)
        frozen.first.requires_grad_(False)
        data, own = place(transport, frozen, recipe)
        data.mean(own(data.x, data.edge_index).square()).backward()
        own.first.requires_grad_(True)
        own.zero_grad()
        data.mean(own(data.x, data.edge_index).square()).backward()
        return {name: each.grad for name, each in own.named_parameters()}

    for grads in run_threads(2, here):
        for name, grad in want.items():
            tolerance = 1e-4 if recipe == "exact" else 0.03
            assert float((grads[name] - grad).abs().max()) <= tolerance * float(grad.abs().max()), name


def test_a_copy_is_distributed_too():
    """Its weights are its own, and their gradients are summed."""
    model = seeded(lambda: two(pyg.SAGEConv, norm=pyg.BatchNorm(HIDDEN)))
    want = plain_gradients(model, lambda own, out: out.square().mean())

    def here(transport):
        data, own = place(transport, model, "exact")
        twin = copy.deepcopy(own)
        assert state_of(twin) is not state_of(own)
        data.mean(twin(data.x, data.edge_index).square()).backward()
        assert all(each.grad is None for each in own.parameters())
        return {name: each.grad for name, each in twin.named_parameters()}

    for grads in run_threads(2, here):
        scale = max(float(grad.abs().max()) for grad in want.values())
        for name, grad in want.items():
            assert_close(name, grads[name], grad, floor=0.01 * scale)


class Dropping(nn.Module):
    """Two layers with a norm, dropout between them or after them, by torch's function or by a module, or lost edges."""

    def __init__(self, where: str, p: float) -> None:
        super().__init__()
        self.inner, self.where, self.p = two(pyg.SAGEConv, norm=pyg.BatchNorm(HIDDEN)), where, p
        self.drop, self.edges = nn.Dropout(p), halowire.DropEdges(p if where == "edges" else 0.0)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edges = self.edges(edge_index)
        h = self.inner.norm(self.inner.first(x, edges)).relu()
        if self.where == "function":
            h = nn.functional.dropout(h, self.p, self.training)
        out = self.inner.second(self.drop(h) if self.where == "module" else h, edges)
        return self.drop(out) if self.where == "after" else out


@pytest.mark.parametrize("where", ["function", "module", "edges", "after"])
@pytest.mark.parametrize("p", [0.5, 0.0])
def test_changes_of_rows_are_not_coded_after_dropout(where, p):
    """Other masks in every epoch change rows by more than they are; what no row travels after does not count."""
    drops = p > 0 and where != "after"

    def here(transport):
        data, own = place(transport, Dropping(where, p), "halowire")
        data.mean(own(data.x, data.edge_index).square()).backward()
        transport.settle()
        return [exchange.policy.decay for exchange in state_of(own).exchanges]

    assert run_threads(2, here) == [[None if drops else 1.0]] * 2

    def asked(transport):
        model = Dropping(where, p)
        data = cut_data(make_graph(), make_owner(transport.size), transport)
        for recipe in (("delta",), ("halowire", {"rate.decay": 0.8})) if drops else ():
            with pytest.raises(InputError, match="set its dropout to 0"):
                halowire.distribute(model, data, *recipe)
        # What was refused is as it was, and follows the advice.
        model.drop.p = model.edges.p = model.p = 0.0
        halowire.distribute(model, data, "delta")

    run_threads(2, asked)


SETTINGS = {
    "gnnpipe": ("gnnpipe", {}, "splits the layers"),
    "hybrid": ("hybrid", {}, "splits the layers"),
    "gnnpipe-1bit": ("gnnpipe-1bit", {}, "splits the layers"),
    "weights": ("exact", {"rate.weights": 8}, "rate.weights"),
    "resend_input": ("exact", {"rate.resend_input": True}, "resend-input"),
    "graded budget": (
        "exact",
        {"rate.bits": 1, "rate.nodes": "degree", "rate.schedule": "budget", "rate.budget": 0.5},
        "budget",
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_do_nothing_in_a_model_of_ones_own_are_refused(name):
    recipe, settings, words = SETTINGS[name]

    def here(transport):
        data = cut_data(make_graph(), make_owner(transport.size), transport)
        with pytest.raises(InputError, match=words):
            halowire.distribute(two(pyg.SAGEConv), data, recipe, settings)

    run_threads(2, here)
