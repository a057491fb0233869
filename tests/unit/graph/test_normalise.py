"""Normalisation equals PyTorch Geometric's and the dense formula."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from halowire.graph import mean, symmetric, symmetric_degree
from halowire.kernels import Csr
from tests.support.small_graphs import random_graph, triangle


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_symmetric_equals_gcn_norm(weighted: bool, seed: int) -> None:
    # distinct edges: which of several self loops PyG keeps is not defined
    graph = random_graph(20, 70, seed, weighted)
    keep = graph.adj.to_dense().nonzero()
    weight = graph.adj.to_dense()[keep[:, 0], keep[:, 1]] if weighted else None
    adj = Csr.from_edges(keep[:, 0], keep[:, 1], 20, 20, weight)
    edge_index, expected = gcn_norm(keep.T.flip(0), weight, 20, add_self_loops=True)
    dense = torch.zeros(20, 20).index_put_((edge_index[1], edge_index[0]), expected, accumulate=True)
    torch.testing.assert_close(symmetric(adj).to_dense(), dense)


def test_symmetric_by_hand() -> None:
    # in-degrees with one self loop each: node 0 hears 2, node 1 hears 0 twice, node 2 hears 1
    adj = triangle().adj
    assert symmetric_degree(adj).tolist() == [2, 3, 2]
    expected = torch.tensor([[0.5, 0, 0.5], [2 / 6**0.5, 1 / 3, 0], [0, 1 / 6**0.5, 0.5]])
    torch.testing.assert_close(symmetric(adj).to_dense(), expected)


def test_symmetric_keeps_the_weight_of_a_self_loop() -> None:
    adj = Csr.from_edges(torch.tensor([0, 1]), torch.tensor([0, 0]), 2, 2, torch.tensor([4.0, 3.0]))
    assert symmetric_degree(adj).tolist() == [4, 4]
    assert symmetric(adj).to_dense().tolist() == [[1, 0], [0.75, 0.25]]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_symmetric_matrix_stays_exactly_symmetric(weighted: bool) -> None:
    result = symmetric(random_graph(40, 200, 1, weighted).undirected().adj)
    assert torch.equal(result.to_dense(), result.to_dense().T)
    column = result.row_index() * 40 + result.indices
    assert bool((column[1:] > column[:-1]).all())


def test_zero_weight_self_loop_leaves_an_isolated_node_at_zero() -> None:
    adj = Csr.from_edges(torch.tensor([0]), torch.tensor([0]), 1, 1, torch.tensor([0.0]))
    assert symmetric(adj).to_dense().tolist() == [[0]]


@pytest.mark.parametrize("weighted", [False, True])
def test_mean_rows_sum_to_one(weighted: bool) -> None:
    graph = random_graph(30, 60, 0, weighted)
    dense = graph.adj.to_dense()
    sums = dense.sum(1, keepdim=True)
    torch.testing.assert_close(mean(graph.adj).to_dense(), torch.where(sums > 0, dense / sums, 0))


def test_mean_of_zero_weights_is_zero() -> None:
    adj = Csr.from_edges(torch.tensor([0, 0]), torch.tensor([0, 1]), 2, 2, torch.zeros(2))
    assert mean(adj).to_dense().tolist() == [[0, 0], [0, 0]]
