"""The graph type: construction from arrays, views of it, and what is derived from it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from halowire.errors import InputError
from halowire.graph import Graph
from halowire.kernels import Csr
from tests.support.small_graphs import random_graph, triangle


def test_rows_are_destinations_and_columns_sources() -> None:
    graph = triangle()
    assert graph.adj.to_dense().tolist() == [[0, 0, 1], [2, 0, 0], [0, 1, 1]]
    assert graph.edge_index().tolist() == [[2, 0, 0, 1, 2], [0, 1, 1, 2, 2]]


def test_sizes() -> None:
    graph = triangle()
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (3, 5, 2, 2)
    assert not graph.multi_label
    assert "3 nodes, 5 edges" in repr(graph)


def test_is_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        triangle().name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.uint16, np.uint32])
def test_takes_numpy_of_any_integer_type(dtype: type) -> None:
    graph = Graph.from_edge_index(np.array([[0, 1], [1, 2]], dtype=dtype), 3, x=np.eye(3), y=np.array([0, 1, 2]))
    assert graph.adj.to_dense().tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert isinstance(graph.x, torch.Tensor)
    assert graph.x.dtype == torch.float32
    assert graph.num_classes == 3


def test_takes_transposed_and_reversed_arrays() -> None:
    pairs = np.array([[0, 1], [1, 2]])
    assert Graph.from_edge_index(pairs.T, 3).edge_index().tolist() == [[0, 1], [1, 2]]
    assert Graph.from_edge_index(pairs.T[::-1], 3).edge_index().tolist() == [[1, 2], [0, 1]]


def test_number_of_nodes_follows_from_what_is_given() -> None:
    edges = np.array([[0], [1]])
    assert Graph.from_edge_index(edges).num_nodes == 2
    assert Graph.from_edge_index(edges, y=np.zeros(4, dtype=int)).num_nodes == 4
    assert Graph.from_edge_index(edges, x=np.zeros((5, 1))).num_nodes == 5


def test_weights_follow_their_edges() -> None:
    graph = Graph.from_edge_index(np.array([[2, 0], [1, 1]]), 3, edge_weight=np.array([[0.5], [2.0]]))
    assert graph.adj.to_dense().tolist() == [[0, 0, 0], [2, 0, 0.5], [0, 0, 0]]


def test_sparse_features_stay_sparse() -> None:
    dense = torch.tensor([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    for x in (dense.to_sparse_coo(), dense.to_sparse_csr()):  # type: ignore[no-untyped-call]
        graph = Graph.from_edge_index(np.zeros((2, 0), dtype=int), 3, x=x)
        assert isinstance(graph.x, Csr)
        assert graph.x.weight is None
        assert torch.equal(graph.x.to_dense(), dense)
        assert graph.num_features == 2


def test_labels_of_several_kinds() -> None:
    edges = np.zeros((2, 0), dtype=int)
    assert Graph.from_edge_index(edges, y=np.array([[1.0], [np.nan]])).y.tolist() == [1, -1]  # type: ignore[union-attr]
    many = Graph.from_edge_index(edges, y=np.array([[1, 0, 1], [0, 0, 0]]))
    assert many.multi_label
    assert many.num_classes == 3
    assert many.y is not None
    assert many.y.dtype == torch.float32


def test_undirected_mirrors_and_merges() -> None:
    graph = triangle().undirected()
    assert graph.adj.to_dense().tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 1]]
    weighted = Graph.from_edge_index([[0, 1, 0], [1, 0, 1]], 2, edge_weight=[1.0, 3.0, 2.0])  # type: ignore[arg-type]
    assert weighted.undirected().adj.to_dense().tolist() == [[0, 3], [3, 0]]


def test_undirected_twice_is_undirected_once() -> None:
    once = random_graph(30, 100, seed=0, weighted=True).undirected()
    twice = once.undirected()
    assert torch.equal(once.adj.indices, twice.adj.indices)
    assert torch.equal(once.adj.to_dense(), twice.adj.to_dense())
    assert torch.equal(once.adj.to_dense(), once.adj.to_dense().T)


def test_subgraph_keeps_ids_classes_and_inner_edges() -> None:
    part = triangle().subgraph(torch.tensor([False, True, True]))
    assert part.ids.tolist() == [1, 2]
    assert part.num_classes == 2
    assert part.adj.to_dense().tolist() == [[0, 0], [1, 1]]
    assert part.y is not None
    assert part.y.tolist() == [1, 1]
    assert part.subgraph(torch.tensor([False, True])).ids.tolist() == [2]


def test_subgraph_of_sparse_features() -> None:
    graph = Graph.from_edge_index(np.array([[0], [1]]), x=torch.eye(3).to_sparse_csr())
    part = graph.subgraph(torch.tensor([True, False, True]))
    assert isinstance(part.x, Csr)
    assert part.x.to_dense().tolist() == [[1, 0, 0], [0, 0, 1]]


def test_with_split_replaces_the_masks() -> None:
    graph = triangle().with_split(np.array([1, 1, 0], dtype=np.uint8), None, np.array([False, False, True]))
    assert graph.train_mask is not None
    assert graph.train_mask.tolist() == [True, True, False]
    assert graph.val_mask is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edge_index": np.zeros((3, 2), dtype=int)}, r"edge_index has shape \[3, 2\]"),
        ({"edge_index": np.zeros((2, 2))}, "edge_index has type .*float64, expected whole numbers"),
        ({"edge_index": np.array([["a"], ["b"]])}, "expected numbers"),
        ({"edge_index": np.array([[0], [3]]), "num_nodes": 3}, r"run from 0 to 3, expected 0\.\.2 for 3 nodes"),
        ({"edge_index": np.array([[-1], [0]]), "num_nodes": 3}, "run from -1 to 0"),
        ({"edge_index": np.zeros((2, 0), dtype=int)}, "no nodes"),
        ({"edge_index": np.array([[0], [1]]), "edge_weight": np.ones(2)}, r"edge_weight has shape \[2\]"),
        ({"edge_index": np.array([[0], [1]]), "train_mask": np.array([0, 1])}, "train_mask has type torch.int64"),
        ({"edge_index": np.array([[0], [1]]), "y": np.array([0.5, 1.0])}, "y holds fractions"),
        ({"edge_index": np.array([[0], [1]]), "y": np.zeros((2, 2, 2))}, r"y has shape \[2, 2, 2\]"),
        ({"edge_index": np.array([[0], [1]]), "x": np.zeros((2, 2, 2))}, r"x has shape \[2, 2, 2\]"),
    ],
)
def test_refuses_arrays_of_the_wrong_kind(arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Graph.from_edge_index(**arguments)


@pytest.mark.parametrize(
    "x",
    [
        torch.eye(2, dtype=torch.complex64),
        torch.eye(2, dtype=torch.complex64).to_sparse_coo(),  # type: ignore[no-untyped-call]
        np.eye(2, dtype=np.complex128),
    ],
    ids=["tensor", "sparse tensor", "array"],
)
def test_refuses_complex_features(x: torch.Tensor) -> None:
    with pytest.raises(InputError, match=r"x has type (torch\.)?complex\d+, expected real numbers"):
        Graph.from_edge_index(np.array([[0], [1]]), 2, x)


def test_shares_memory_with_the_arrays_it_was_made_of() -> None:
    x = np.zeros((2, 3), dtype=np.float32)
    graph = Graph.from_edge_index(np.array([[0], [1]]), 2, x)
    x[1, 2] = 7
    assert isinstance(graph.x, torch.Tensor)
    assert graph.x[1, 2] == 7
    assert "shared with the caller" in (Graph.__doc__ or "")


def test_subgraph_refuses_other_masks() -> None:
    with pytest.raises(InputError, match="mask of a subgraph"):
        triangle().subgraph(torch.tensor([0, 1]))
