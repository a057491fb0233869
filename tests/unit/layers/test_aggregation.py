"""The cut of a shard's matrices into boundary and interior: complete, in the right place, without copies."""

from __future__ import annotations

import pytest
import torch

from halowire.graph import block_model
from halowire.kernels import row_range
from halowire.layers import mean_sum
from halowire.partitioning import cut, partition
from halowire.wire import HaloExchange, Transport
from tests.support.rings import arc, ring


def edges_of(shard):
    return mean_sum(shard, HaloExchange(shard, Transport(), torch.device("cpu")))


@pytest.mark.parametrize("parts", [1, 3])
def test_boundary_and_interior_are_the_whole(parts):
    graph = block_model(60, 200, 4, 3, seed=2)
    for shard in cut(graph, partition(graph, parts, method="random", seed=1)):
        edges = edges_of(shard)
        inner, halo = shard.mean()
        boundary, interior = edges.into(slice(0, edges.boundary)), edges.into(slice(edges.boundary, shard.num_owned))
        assert torch.equal(torch.cat([boundary.inner.to_dense(), interior.inner.to_dense()]), inner.to_dense())
        assert torch.equal(boundary.halo.to_dense(), halo.to_dense()[: edges.boundary])
        assert boundary.halo.nnz == halo.nnz, "no edge from the halo reaches the interior"
        assert interior.halo.nnz == 0
        assert torch.equal(edges.inner_t.to_dense(), inner.to_dense().t())
        assert torch.equal(edges.halo_t.to_dense(), boundary.halo.to_dense().t())


@pytest.mark.parametrize("at", [slice(0, 20), slice(3, 17), slice(9, 9), slice(15, 20)], ids=str)
def test_any_rows_sum_their_own_and_halo_rows(at):
    graph = block_model(60, 200, 4, 3, seed=2)
    shard = cut(graph, partition(graph, 3, method="range"))[1]
    edges = edges_of(shard)
    own, halo = torch.randn(shard.num_owned, 5), torch.randn(shard.num_halo, 5)
    inner_part, halo_part = (matrix.to_dense()[at] for matrix in shard.mean())
    assert edges.boundary > 0 and shard.num_owned == 20
    out = torch.full((at.stop - at.start, 5), torch.nan)
    torch.testing.assert_close(edges.into(at).sum(own, halo, out), inner_part @ own + halo_part @ halo)
    assert edges.into(at) is edges.into(at), "cut once"


def test_backward_is_the_transpose_for_owned_and_for_halo_rows():
    graph = block_model(60, 200, 4, 3, seed=2)
    shard = cut(graph, partition(graph, 3, method="range"))[1]
    edges, (inner, halo) = edges_of(shard), shard.mean()
    grad, into = torch.randn(shard.num_owned, 5), torch.randn(shard.num_owned, 5)
    before = into.clone()
    torch.testing.assert_close(edges.own_back(grad), inner.to_dense().t() @ grad)
    torch.testing.assert_close(edges.own_back(grad, into), before + inner.to_dense().t() @ grad)
    torch.testing.assert_close(edges.halo_back(grad), halo.to_dense().t() @ grad)


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
    assert row_range(matrix, 0, matrix.num_rows) is matrix
