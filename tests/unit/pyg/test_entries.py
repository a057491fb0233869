"""A pass begins wherever a model is called with edges: in a method, in a module inside it, on the data from outside."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import Data

import halowire
from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import CLASSES, FEATURES, NODES, assert_close, make_graph, make_owner, seeded
from tests.support.pyg_models import HIDDEN, two
from tests.support.worker_counts import two_and_three

GRAPH = make_graph() | {"y": torch.arange(NODES) % CLASSES}
OTHER = make_graph(seed=7) | {"y": GRAPH["y"]}
OUTSIDE: dict[str, object] = {}
"""What stands for a script's global variables; each thread of a test has its own entry."""


class Encoder(nn.Module):
    """The habit of link prediction: ``encode`` is called by name, and ``forward`` is missing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.GCNConv(FEATURES, HIDDEN), pyg.GCNConv(HIDDEN, CLASSES)

    def encode(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)


class TakesData(nn.Module):
    """Takes the whole graph, and asks it what PyG's Data answers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.GCNConv(FEATURES, CLASSES)

    def forward(self, data) -> Tensor:
        assert data.pos is None and "x" in data
        return self.conv(data.x, data.edge_index, data.edge_weight) / data.num_features


class ReadsOutside(nn.Module):
    """Reads a script's global variable."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.conv, self.name = pyg.GCNConv(FEATURES, CLASSES), name

    def forward(self) -> Tensor:
        data = OUTSIDE[self.name]
        return self.conv(data.x, data.edge_index) / data.num_features


def steps(model: nn.Module, call, mean) -> list[Tensor]:
    """The weights after three steps, and the output then."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.3)
    for _ in range(3):
        optimiser.zero_grad()
        mean(call(model).square()).backward()
        optimiser.step()
    return [value.detach() for value in model.parameters()]


CASES = {
    "a method": (Encoder, lambda model, data: model.encode(data.x, data.edge_index)),
    "an autoencoder": (lambda: pyg.GAE(two(pyg.GCNConv)), lambda model, data: model.encode(data.x, data.edge_index)),
    "a module inside": (lambda: pyg.GAE(two(pyg.GCNConv)), lambda model, data: model.encoder(data.x, data.edge_index)),
    "layers by themselves": (Encoder, lambda model, data: model.second(
        model.first(data.x, data.edge_index).relu(), data.edge_index)),
    "the data": (TakesData, lambda model, data: model(data)),
}  # fmt: skip


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("name", CASES)
def test_three_steps_equal_those_of_plain_pyg(name, workers):
    make, call = CASES[name]
    model = seeded(make)
    whole = Data(**GRAPH)
    want = steps(copy.deepcopy(model), lambda own: call(own, whole), torch.mean)

    def here(transport):
        data = cut_data(GRAPH, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data)
        return steps(own, lambda own: call(own, data), data.mean)

    for found in run_threads(workers, here):
        for got, value in zip(found, want, strict=True):
            assert_close("weight", got, value)


@two_and_three
def test_data_that_is_read_from_outside(workers):
    model = seeded(lambda: ReadsOutside("whole"))
    OUTSIDE["whole"] = Data(**GRAPH)
    want = steps(copy.deepcopy(model), lambda own: own(), torch.mean)

    def here(transport):
        own = copy.deepcopy(model)
        own.name = f"part {transport.rank}"
        data = OUTSIDE[own.name] = cut_data(GRAPH, make_owner(transport.size), transport)
        return steps(halowire.distribute(own, data), lambda own: own(), data.mean)

    for found in run_threads(workers, here):
        for got, value in zip(found, want, strict=True):
            assert_close("weight", got, value)


@two_and_three
@pytest.mark.parametrize("recipe", ["exact", "halowire", "sylvie-a"])
def test_one_model_runs_on_several_graphs(recipe, workers):
    """It learns on one, as in a split of links, and is tried on another."""
    model = seeded(Encoder)
    with torch.no_grad():
        want = copy.deepcopy(model).encode(OTHER["x"], OTHER["edge_index"])

    def here(transport):
        data = cut_data(GRAPH, make_owner(transport.size), transport)
        test_data = cut_data(OTHER, make_owner(transport.size, seed=5), transport)
        own = halowire.distribute(copy.deepcopy(model), data, recipe)
        with torch.no_grad():
            found = test_data.gather(own.eval().encode(test_data.x, test_data.edge_index))
        losses = []
        optimiser = torch.optim.Adam(own.train().parameters(), lr=0.01)
        for _ in range(8):
            optimiser.zero_grad()
            loss = data.cross_entropy(own.encode(data.x, data.edge_index), data.y)
            loss.backward()
            losses.append(float(loss))
            optimiser.step()
            with torch.no_grad():
                own.encode(test_data.x, test_data.edge_index)
        transport.settle()
        return found, losses

    for found, losses in run_threads(workers, here):
        assert_close("output", found, want)
        assert losses[-1] < losses[0]


def test_losses_of_two_graphs_are_not_added():
    def here(transport):
        parts = [cut_data(graph, make_owner(transport.size), transport) for graph in (GRAPH, OTHER)]
        own = halowire.distribute(Encoder(), parts[0])
        losses = [part.mean(own.encode(part.x, part.edge_index)) for part in parts]
        with pytest.raises(InputError, match="backward of each"):
            losses[0] + losses[1]

    run_threads(2, here)
