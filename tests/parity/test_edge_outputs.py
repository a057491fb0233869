"""Values of edges that a model gives (attention, scores) are those of plain PyG, edge by edge, and so is their loss."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

import halowire
from halowire.errors import InputError
from halowire.graph import Graph
from halowire.partitioning import Partition, cut
from halowire.pyg.own_rows import plain
from halowire.pyg.shard_data import cut_data, of_shard
from halowire.wire import run_threads
from tests.support.edge_output_cases import CASES, WIDTH, Scores, graph_of
from tests.support.pyg_case import FEATURES, NODES, assert_close, make_graph, make_owner, seeded
from tests.support.worker_counts import two_and_three

QUICK = ("GATConv with its edges", "scores")


class Plain:
    """A whole graph under the names that the parts have."""

    def __init__(self, graph: dict[str, Tensor]) -> None:
        vars(self).update(graph)

    def mean(self, values: Tensor) -> Tensor:
        return values.mean()

    def gather(self, values: Tensor) -> Tensor:
        return values.detach()


def learn(own: nn.Module, data: Any, step: Any) -> tuple[list[Tensor], list[dict[str, Tensor]]]:
    """Everything that is gathered, and the gradients and weights, of three steps and an evaluation."""
    optimiser, gathered, learnt = torch.optim.SGD(own.parameters(), lr=0.1), [], []
    for _ in range(3):
        optimiser.zero_grad()
        found, values = step(own.train(), data)
        sum(data.mean(value) for value in values).backward()
        optimiser.step()
        gathered += [data.gather(value) for value in found]
        learnt.append({f"gradient of {name}": value.grad.clone() for name, value in own.named_parameters()})
        learnt.append({name: value.detach().clone() for name, value in own.named_parameters()})
    with torch.no_grad():
        gathered += [data.gather(value) for value in step(own.eval(), data)[0]]
    return gathered, learnt


def check(name: str, order: str, workers: int) -> None:
    make, step = CASES[name]
    model, graph = seeded(make), graph_of(order)
    wanted, steps = learn(copy.deepcopy(model), Plain(graph), step)

    def here(transport):
        data = cut_data(graph, make_owner(workers), transport)
        own = halowire.distribute(copy.deepcopy(model), data)
        found = learn(own, data, step)
        transport.settle()
        return found

    for gathered, learnt in run_threads(workers, here):
        for got, value in zip(gathered, wanted, strict=True):
            assert got.shape == value.shape
            assert_close("output", got.double(), value.double())
        for got, value in zip(learnt, steps, strict=True):
            scale = max(float(tensor.abs().max()) for tensor in value.values())
            for key, tensor in value.items():
                assert_close(key, got[key], tensor, floor=0.01 * scale)


@pytest.mark.parametrize("name", QUICK)
def test_values_of_edges_are_those_of_plain_pyg(name):
    check(name, "as it is", 2)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("order", ["as it is", "sorted", "no loops", "a loop at every node"])
@pytest.mark.parametrize("name", CASES)
def test_values_of_edges_in_every_order(name, order, workers):
    check(name, order, workers)


@two_and_three
def test_the_importance_of_edges_is_gathered(workers):
    """The gradient of the edges' weights, as explanations use it, and what it is compared with by hand."""
    graph = graph_of("as it is")
    model = seeded(lambda: pyg.GCNConv(FEATURES, WIDTH))
    weight = graph["edge_weight"].clone().requires_grad_()
    model(graph["x"], graph["edge_index"], weight).square().mean().backward()

    def here(transport):
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data)
        data.edge_weight.requires_grad_()
        data.mean(own(data.x, data.edge_index, data.edge_weight).square()).backward()
        assert torch.equal(graph["edge_attr"][data.edge_rows], data.edge_attr)
        assert torch.equal(data.gather(data.edge_index), graph["edge_index"])
        return data.gather(data.edge_weight.grad)

    for found in run_threads(workers, here):
        assert_close("gradient", found, weight.grad)


def test_edges_of_shards_from_disk_are_numbered_as_those_of_the_graph():
    tensors = make_graph()
    tensors["edge_index"] = torch.unique(tensors["edge_index"], dim=1)  # parallel edges cannot be told apart
    graph = Graph.from_edge_index(tensors["edge_index"], NODES)

    def here(transport):
        shard = cut(graph, Partition(make_owner(transport.size), transport.size))[transport.rank]
        data = of_shard(shard, transport, torch.device("cpu"))
        return data.gather(data.edge_index)

    for found in run_threads(3, here):
        assert torch.equal(found, graph.edge_index())


class Filtered(Scores):
    """Scores of some edges only."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        some = edge_attr[:, 0] > 0
        return self.decode(self.encode(x, edge_index), edge_index[:, some], edge_attr[some])


class Rare(Scores):
    """Scores of all edges but one, which a small random graph does not have."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        some = edge_attr[:, 0] < edge_attr.new_tensor(9.0)
        return self.decode(self.encode(x, edge_index), edge_index[:, some], edge_attr[some])


class Dropping(Scores):
    """Scores of the edges that were not dropped: all of them in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = halowire.DropEdges(0.5)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        edge_index, edge_attr = self.drop(edge_index, edge_attr)
        return super().forward(x, edge_index, edge_attr)


WRONG = {
    "some edges": (Filtered, lambda data, found: found, "one per edge of edge_index"),
    "dropped edges": (Dropping, lambda data, found: found, "one per edge of edge_index"),
    "numbers of edges": (Scores, lambda data, found: found[torch.tensor([3, 5])], "data.edge_mask"),
    "a slice": (Scores, lambda data, found: found.relu()[:10], "data.edge_mask"),
    "a mask of all edges": (Scores, lambda data, found: found[torch.ones(520, dtype=torch.bool)], "data.edge_mask"),
    "edges that were picked": (Scores, lambda data, found: data.gather(data.edge_index[:, data.edge_mask]),
                               "gather values for all edges"),
    "edges that are rarely left out": (Rare, lambda data, found: found, "but when it was checked"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_values_that_have_no_place_are_refused(name):
    make, use, words = WRONG[name]

    def here(transport):
        data = cut_data(graph_of("as it is"), make_owner(2), transport)
        own = None
        with pytest.raises(InputError, match=words):
            own = halowire.distribute(seeded(make), data)
            plain(data.edge_attr)[-1] = 10.0  # after the model was rehearsed with the other rows
            use(data, own(data.x, data.edge_index, data.edge_attr))
        assert (own is None) == (words == "one per edge of edge_index")
        transport.settle()

    run_threads(2, here)
