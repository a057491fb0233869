"""A sparse adjacency equals the edges: in layers, in products by hand, cut or whole."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.transforms import ToSparseTensor

import halowire
from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data, tensors_of
from halowire.wire import run_threads
from tests.support.pyg_case import CLASSES, FEATURES, assert_close, make_graph, make_owner, seeded
from tests.support.pyg_models import two

ROUNDS = 3


class Products(nn.Module):
    """Multiplies with the matrix and its transpose, in three ways of writing it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor, adj_t: Tensor) -> Tensor:
        h = (adj_t @ self.first(x)).tanh()
        h = torch.sparse.mm(adj_t, h) + torch.matmul(adj_t.t(), h)
        return self.second(h)


class OnData(nn.Module):
    """Takes the data and reads its matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.GCNConv(FEATURES, CLASSES)

    def forward(self, data) -> Tensor:
        return self.conv(data.x, data.adj_t)


def graph(layout: torch.layout, weighted: bool) -> Data:
    """The test graph by ``ToSparseTensor``, without parallel edges and loops: GCNConv doubles loops of a matrix."""
    tensors = make_graph()
    edges = tensors["edge_index"].unique(dim=1)
    edges = edges[:, edges[0] != edges[1]]
    weight = torch.rand(edges.shape[1], generator=torch.Generator().manual_seed(1)) + 0.1
    data = Data(x=tensors["x"], edge_index=edges, edge_weight=weight if weighted else None)
    return ToSparseTensor(attr="edge_weight", layout=layout)(data)


MODELS = {
    "products": (Products, lambda model, data: model(data.x, data.adj_t), True),
    "GCN": (lambda: two(pyg.GCNConv), lambda model, data: model(data.x, data.adj_t), True),
    "GCN without weights": (lambda: two(pyg.GCNConv), lambda model, data: model(data.x, data.adj_t), False),
    "SAGE": (lambda: two(pyg.SAGEConv), lambda model, data: model(data.x, data.adj_t), False),
    "a model of the zoo": (
        lambda: pyg.models.GCN(FEATURES, 8, 2, CLASSES), lambda model, data: model(data.x, data.adj_t), False),
    "the data": (OnData, lambda model, data: model(data), True),
}  # fmt: skip


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_three_steps_equal_those_of_plain_pyg(name, workers):
    make, call, weighted = MODELS[name]
    model, whole = seeded(make), graph(torch.sparse_csr, weighted)
    tensors, nodes = tensors_of(whole)

    def steps(own, data, mean):
        optimiser = torch.optim.SGD(own.parameters(), lr=0.1)
        for _ in range(ROUNDS):
            optimiser.zero_grad()
            mean(call(own, data).square()).backward()
            optimiser.step()
        return [value.detach() for value in own.parameters()]

    want = steps(copy.deepcopy(model), whole, torch.mean)

    def here(transport):
        data = cut_data(tensors, make_owner(transport.size, nodes), transport)
        return steps(halowire.distribute(copy.deepcopy(model), data), data, data.mean)

    for found in run_threads(workers, here):
        for got, value in zip(found, want, strict=True):
            assert_close("weight", got, value)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])
def test_every_layout_gives_the_edges(layout):
    whole = graph(layout, True)
    tensors, _ = tensors_of(whole)
    dense = torch.zeros(whole.num_nodes, whole.num_nodes)
    dense[tensors["edge_index"][1], tensors["edge_index"][0]] = tensors["adj_t"]
    assert torch.equal(dense, whole.adj_t.to_dense())


def test_what_needs_the_whole_matrix_is_refused():
    tensors, nodes = tensors_of(graph(torch.sparse_csr, True))

    def here(transport):
        data = cut_data(tensors, make_owner(transport.size, nodes), transport)
        assert data.adj_t.size(0) == data.num_nodes and data.adj_t.to("cpu") is data.adj_t
        for wrong in (lambda: data.adj_t.to_dense(1), lambda: torch.add(data.adj_t, 1)):
            with pytest.raises(InputError, match=r"before halowire\.shard"):
                wrong()
        with pytest.raises(InputError, match="takes no weights"):
            halowire.distribute(two(pyg.SAGEConv), data)(data.x, data.adj_t)

    run_threads(2, here)
    both = graph(torch.sparse_csr, True)
    both.edge_index = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(InputError, match="keep one of them"):
        tensors_of(both)
