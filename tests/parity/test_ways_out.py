"""Weights and edges that a part cannot hold as they are written: a refusal names what to write, and that is right."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

import halowire
from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data, tensor_kinds
from halowire.wire import run_threads
from tests.support.pyg_case import CLASSES, FEATURES, NODES, assert_close, make_graph, make_owner, seeded
from tests.support.pyg_models import two
from tests.support.worker_counts import two_and_three


class Weighted(nn.Module):
    """Learns a weight for each edge, or takes them."""

    def __init__(self, count: int = 0) -> None:
        super().__init__()
        self.conv = pyg.GCNConv(FEATURES, CLASSES)
        self.weight = nn.Parameter(torch.ones(count)) if count else None

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.conv(x, edge_index, self.weight if edge_weight is None else edge_weight)


class TwoLists(nn.Module):
    """Passes messages along one list of edges, then along another."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = pyg.GCNConv(FEATURES, CLASSES), pyg.GCNConv(CLASSES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, second: Tensor) -> Tensor:
        return self.two(self.one(x, edge_index).relu(), second)


class OneList(TwoLists):
    """The same with both lists in one."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        return super().forward(x, edge_index[:, edge_type == 0], edge_index[:, edge_type == 1])


@two_and_three
@pytest.mark.parametrize("count", ["num_nodes", "num_edges"])
def test_weights_that_count_the_rows_of_a_part_are_refused_with_the_number_of_all(count, workers):
    def here(transport):
        data = cut_data(make_graph(), make_owner(workers), transport)
        model = two(pyg.SAGEConv)
        model.table = nn.Embedding(getattr(data, count), 3)
        with pytest.raises(
            InputError, match=r"before halowire\.shard, or with data\.num_whole_nodes.*of data\.num_edges"
        ):
            halowire.distribute(model, data)

    run_threads(workers, here)


@two_and_three
def test_a_weight_for_each_edge_is_refused_in_the_model_and_learns_outside_of_it(workers):
    graph = make_graph()
    given = torch.rand(graph["edge_index"].shape[1], generator=torch.Generator().manual_seed(2))
    weight, plain = nn.Parameter(given.clone()), seeded(Weighted)
    plain(graph["x"], graph["edge_index"], weight).square().mean().backward()

    def here(transport):
        data = cut_data(graph, make_owner(workers), transport)
        inside = halowire.distribute(Weighted(given.numel()), data)
        with pytest.raises(
            InputError, match=r"weight has as many values as the whole graph has edges: make it outside"
        ):
            inside(data.x, data.edge_index)
        own = halowire.distribute(copy.deepcopy(plain), data)
        own.zero_grad()
        mine = nn.Parameter(given[data.edge_rows])
        data.mean(own(data.x, data.edge_index, mine).square()).backward()
        return data.gather(mine.grad), [value.grad for value in own.parameters()]

    for grad, grads in run_threads(workers, here):
        assert_close("gradient of the edges", grad, weight.grad)
        for got, value in zip(grads, plain.parameters(), strict=True):
            assert_close("gradient", got, value.grad)


@pytest.mark.parametrize("workers", [2, 3])
def test_a_second_list_of_edges_is_refused_and_is_right_in_one_list(workers):
    graph = {name: make_graph()[name] for name in ("x", "edge_index")}
    second = make_graph(seed=5)["edge_index"]
    plain = seeded(TwoLists)
    want = plain(graph["x"], graph["edge_index"], second).detach()
    with pytest.raises(InputError, match=r"edge_index2 \[2, .*a second list of edges.*edge_index\[:, edge_type == 1\]"):
        tensor_kinds(graph | {"edge_index2": second}, NODES, graph["edge_index"].shape[1])

    def here(transport):
        two_lists = cut_data(graph | {"hop2_edge_index": second}, make_owner(workers), transport)
        model = halowire.distribute(copy.deepcopy(plain), two_lists)
        with pytest.raises(InputError, match=r"hop2_edge_index.*put all edges into edge_index.*edge_type == 0"):
            model(two_lists.x, two_lists.edge_index, two_lists.hop2_edge_index)
        kinds = torch.arange(2).repeat_interleave(torch.tensor([graph["edge_index"].shape[1], second.shape[1]]))
        whole = {"x": graph["x"], "edge_index": torch.cat([graph["edge_index"], second], 1), "edge_type": kinds}
        data = cut_data(whole, make_owner(workers), transport)
        own = OneList()
        own.load_state_dict(plain.state_dict())
        return data.gather(halowire.distribute(own, data)(data.x, data.edge_index, data.edge_type))

    for out in run_threads(workers, here):
        assert_close("output", out, want)
