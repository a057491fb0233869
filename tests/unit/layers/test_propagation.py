"""The cut of a shard's matrices into head and tail: complete, in the right place, without copies."""

from __future__ import annotations

import pytest
import torch
from halowire.layers.propagation import row_range

from halowire.graph import block_model
from halowire.layers import Propagation
from halowire.partitioning import cut, partition
from halowire.wire import HaloExchange, Transport
from tests.unit.layers.test_boundary_first import ring, shard_of

CPU = torch.device("cpu")


def spread_of(shard):
    return Propagation.of(shard, "mean", HaloExchange(shard, Transport(), CPU), CPU)


@pytest.mark.parametrize("parts", [1, 3])
def test_head_and_tail_are_the_whole(parts):
    graph = block_model(60, 200, 4, 3, seed=2)
    for shard in cut(graph, partition(graph, parts, method="random", seed=1)):
        spread = spread_of(shard)
        joined = torch.cat([spread.inner_head.to_dense(), spread.inner_tail.to_dense()])
        assert torch.equal(joined, spread.inner.to_dense())
        assert torch.equal(spread.halo_head.to_dense(), spread.halo.to_dense()[: spread.head])
        assert spread.halo_head.nnz == spread.halo.nnz, "no edge from the halo reaches the tail"
        assert torch.equal(spread.halo_t.to_dense(), spread.halo_head.to_dense().t())


@pytest.mark.parametrize(("directed", "head"), [(False, 2), (True, 2)])
def test_the_head_is_what_has_to_do_with_others(directed, head):
    shard = shard_of(ring(directed=directed), 2)
    assert spread_of(shard).head == head
    assert shard.num_boundary == (1 if directed else 2)


def test_one_worker_has_no_head():
    assert spread_of(shard_of(ring(), 1)).head == 0


def test_a_range_of_rows_shares_the_memory_of_the_whole():
    matrix = spread_of(shard_of(ring(), 1)).inner
    part = row_range(matrix, 5, 9)
    first = int(matrix.indptr[5])
    assert part.indices.data_ptr() == matrix.indices[first:].data_ptr()
    assert part.weight.data_ptr() == matrix.weight[first:].data_ptr()
    assert part.nnz == int(matrix.indptr[9]) - first
