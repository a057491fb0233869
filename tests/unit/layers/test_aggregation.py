"""The cut of a shard's matrices into boundary and interior: complete, in the right place, without copies."""

from __future__ import annotations

import pytest
import torch

from halowire.graph import block_model
from halowire.kernels import row_range
from halowire.layers import mean
from halowire.partitioning import cut, partition
from halowire.wire import HaloExchange, Transport
from tests.support.rings import arc, ring


def edges_of(shard):
    return mean(shard, HaloExchange(shard, Transport(), torch.device("cpu")))


@pytest.mark.parametrize("parts", [1, 3])
def test_boundary_and_interior_are_the_whole(parts):
    graph = block_model(60, 200, 4, 3, seed=2)
    for shard in cut(graph, partition(graph, parts, method="random", seed=1)):
        edges = edges_of(shard)
        joined = torch.cat([edges.inner_boundary.to_dense(), edges.inner_interior.to_dense()])
        assert torch.equal(joined, edges.inner.to_dense())
        assert torch.equal(edges.halo_boundary.to_dense(), edges.halo.to_dense()[: edges.boundary])
        assert edges.halo_boundary.nnz == edges.halo.nnz, "no edge from the halo reaches the interior"
        assert torch.equal(edges.halo_t.to_dense(), edges.halo_boundary.to_dense().t())


@pytest.mark.parametrize(("directed", "boundary"), [(False, 2), (True, 2)])
def test_the_boundary_is_what_has_to_do_with_others(directed, boundary):
    shard = arc(ring(directed=directed), 2)
    assert edges_of(shard).boundary == boundary
    assert shard.num_boundary == (1 if directed else 2)


def test_one_worker_has_no_boundary():
    assert edges_of(arc(ring(), 1)).boundary == 0


def test_a_range_of_rows_shares_the_memory_of_the_whole():
    matrix = edges_of(arc(ring(), 1)).inner
    part = row_range(matrix, 5, 9)
    first = int(matrix.indptr[5])
    assert part.indices.data_ptr() == matrix.indices[first:].data_ptr()
    assert part.weight.data_ptr() == matrix.weight[first:].data_ptr()
    assert part.nnz == int(matrix.indptr[9]) - first
