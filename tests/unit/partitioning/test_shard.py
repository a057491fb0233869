"""Cutting, on graphs small enough to see every row."""

from __future__ import annotations

import pytest
import torch

from halowire.errors import InputError
from halowire.graph import Graph
from halowire.kernels import Csr
from halowire.partitioning import Partition, cut, partition
from tests.support.awkward_graphs import awkward


def test_a_directed_path_row_by_row() -> None:
    """Edges 0 -> 1 -> 2 -> 3 -> 4 and 4 -> 4; part 1 owns 1 and 2, part 0 the rest."""
    edges = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 4]])
    graph = Graph.from_edge_index(edges, 5, ids=torch.tensor([10, 11, 12, 13, 14]))
    first, second = cut(graph, Partition(torch.tensor([0, 1, 1, 0, 0]), 2))
    assert (first.rows.tolist(), first.num_boundary, first.ids.tolist()) == ([0, 3, 4], 1, [10, 13, 14])
    assert (second.rows.tolist(), second.num_boundary, second.ids.tolist()) == ([2, 1], 1, [12, 11])
    assert (first.halo_ids.tolist(), second.halo_ids.tolist()) == ([12], [10])
    assert (first.send_index.tolist(), first.send_counts, first.recv_counts) == ([0], (0, 1), (0, 1))
    assert (second.send_index.tolist(), second.send_counts, second.recv_counts) == ([0], (1, 0), (1, 0))
    assert first.inner.to_dense().tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 1]]
    assert first.halo.to_dense().tolist() == [[0], [1], [0]]
    assert second.inner.to_dense().tolist() == [[0, 1], [0, 0]]
    assert second.halo.to_dense().tolist() == [[0], [1]]
    assert first.degree.tolist() == [0, 1, 2]
    assert first.symmetric_degree.tolist() == [1, 2, 2, 2]
    assert (first.num_owned, first.num_halo, first.num_edges, first.num_features) == (3, 1, 3, 0)


def test_one_part_is_the_graph_itself() -> None:
    graph = awkward(weighted=True)
    (shard,) = cut(graph, partition(graph, 1))
    assert torch.equal(shard.rows, torch.arange(30)) and torch.equal(shard.ids, graph.ids)
    assert torch.equal(shard.inner.to_dense(), graph.adj.to_dense())
    assert (shard.num_halo, shard.num_boundary, shard.halo.nnz, shard.send_counts) == (0, 0, 0, (0,))
    assert shard.halo.num_rows == 30 and shard.halo.num_cols == 0


def test_features_labels_and_masks_follow_their_rows() -> None:
    graph = awkward(multi_label=True, sparse=True)
    for shard in cut(graph, partition(graph, 3, "random")):
        assert isinstance(shard.x, Csr) and isinstance(graph.x, Csr)
        assert torch.equal(shard.x.to_dense(), graph.x.to_dense()[shard.rows])
        assert graph.y is not None and shard.y is not None and torch.equal(shard.y, graph.y[shard.rows])
        assert graph.val_mask is not None and shard.val_mask is not None
        assert torch.equal(shard.val_mask, graph.val_mask[shard.rows])
        assert shard.multi_label and shard.num_features == 6
        assert shard.counts == {"train": 16, "val": 7, "test": 7}


def test_absent_features_stay_absent() -> None:
    graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 2)
    for shard in cut(graph, Partition(torch.tensor([0, 1]), 2)):
        assert (shard.x, shard.y, shard.train_mask) == (None, None, None)
        assert shard.counts == {"train": 0, "val": 0, "test": 0}


def test_a_part_without_nodes_is_an_empty_shard() -> None:
    graph = awkward()
    shards = cut(graph, Partition(torch.arange(30) % 2, 3))
    assert (shards[2].num_owned, shards[2].num_halo, shards[2].recv_counts) == (0, 0, (0, 0, 0))
    assert all(matrix.nnz == 0 for pair in (shards[2].symmetric(), shards[2].mean()) for matrix in pair)


def test_a_partition_of_another_graph_is_refused() -> None:
    with pytest.raises(InputError, match="partition this graph"):
        cut(awkward(), Partition(torch.zeros(4, dtype=torch.int64), 1))


def test_symmetric_stays_symmetric_to_the_last_bit() -> None:
    graph = awkward(200, 900).undirected()
    for shard in cut(graph, partition(graph, 2)):
        inner, _ = shard.symmetric()
        assert torch.equal(inner.to_dense(), inner.to_dense().T)
