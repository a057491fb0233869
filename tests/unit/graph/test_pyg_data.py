"""PyTorch Geometric's Data, with everything it may carry."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from halowire.errors import InputError
from halowire.graph import from_pyg, load
from halowire.kernels import Csr
from tests.support.small_graphs import triangle


def data(**changes: object) -> Data:
    graph = triangle()
    fields = {
        "edge_index": graph.edge_index(),
        "x": graph.x,
        "y": graph.y,
        "train_mask": graph.train_mask,
        "val_mask": graph.val_mask,
        "test_mask": graph.test_mask,
    }
    return Data(**(fields | changes))


def test_takes_over_edges_features_labels_and_masks() -> None:
    graph, expected = load(data()), triangle()
    assert torch.equal(graph.adj.to_dense(), expected.adj.to_dense())
    assert torch.equal(graph.x, expected.x)  # type: ignore[arg-type]
    assert torch.equal(graph.test_mask, expected.test_mask)  # type: ignore[arg-type]
    assert graph.num_classes == 2


def test_edge_weights_come_from_either_name() -> None:
    weight = torch.tensor([1.0, 2, 3, 4, 5])
    for given in ({"edge_weight": weight}, {"edge_attr": weight}, {"edge_attr": weight.unsqueeze(1)}):
        graph = from_pyg(data(**given))
        assert graph.adj.to_dense().tolist() == [[0, 0, 1], [5, 0, 0], [0, 4, 5]]


def test_several_edge_features_and_types_are_kept_beside_the_weights() -> None:
    features, kind, weight = torch.arange(10.0).view(5, 2), torch.arange(5), torch.tensor([1.0, 2, 3, 4, 5])
    graph = from_pyg(data(edge_attr=features, edge_type=kind, edge_weight=weight))
    assert graph.adj.weight is not None
    assert graph.edge_tensors["edge_type"].tolist() == [int(value) - 1 for value in graph.adj.weight]
    assert torch.equal(graph.edge_tensors["edge_attr"], features[graph.edge_tensors["edge_type"]])
    assert from_pyg(data(edge_attr=features)).adj.weight is None


def test_sparse_features_stay_sparse() -> None:
    graph = from_pyg(data(x=torch.eye(3).to_sparse_csr()))
    assert isinstance(graph.x, Csr)
    assert torch.equal(graph.x.to_dense(), torch.eye(3))


def test_adj_t_of_torch_tensors() -> None:
    adj = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    graph = from_pyg(Data(adj_t=adj.to_sparse_csr(), num_nodes=2))
    assert torch.equal(graph.adj.to_dense(), adj)


def test_one_of_several_splits() -> None:
    columns = torch.eye(3, dtype=torch.bool)
    masks = {"train_mask": columns, "val_mask": columns.roll(1, 1), "test_mask": columns.roll(2, 1)}
    graph = from_pyg(data(**masks), split=2)
    assert graph.train_mask is not None
    assert graph.train_mask.tolist() == [False, False, True]
    with pytest.raises(InputError, match="split 3 was asked for"):
        from_pyg(data(**masks), split=3)


def test_structure_alone_is_enough() -> None:
    graph = from_pyg(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=4))
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (4, 1, 0)


def test_checks_what_it_takes_over() -> None:
    with pytest.raises(InputError, match="NaN"):
        from_pyg(data(x=torch.full((3, 2), torch.nan)))
    with pytest.raises(InputError, match=r"got a list, expected a torch_geometric\.data\.Data"):
        from_pyg([1, 2])
    with pytest.raises(InputError, match="edge_index is missing"):
        from_pyg(Data(x=torch.ones(2, 2)))
