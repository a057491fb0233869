"""The gradient rules: which edges weigh what, and that every edge weighs 1 in the mean over all orders."""

from __future__ import annotations

import itertools

import pytest
import torch

from halowire.graph import block_model
from halowire.partitioning import cut, partition
from halowire.schedules import Chunks, chunk_numbers, renumber
from tests.support.chunk_gradients import K, N, gradient


@pytest.mark.parametrize("rule", ["double", "position", "unbiased"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_mean_over_all_orders_is_exact(count, rule):
    draw = torch.Generator().manual_seed(count)
    a = torch.rand(N, N, generator=draw) * (torch.rand(N, N, generator=draw) < 0.5)
    w = torch.randn(N, K, generator=draw)
    orders = list(itertools.permutations(range(count)))
    mean = sum(gradient(a, w, order, rule) for order in orders) / len(orders)
    torch.testing.assert_close(mean, a.T @ w, rtol=1e-5, atol=1e-5)
    if count > 1:
        assert not torch.allclose(gradient(a, w, orders[0], rule), a.T @ w, rtol=1e-2)


def test_every_edge_has_its_weight():
    a, half = torch.ones(N, N), N // 2
    for order in ((0, 1), (1, 0)):
        first, second = (slice(0, half), slice(half, N)) if order == (0, 1) else (slice(half, N), slice(0, half))
        found = gradient(a, torch.ones(N, K), order, "double")
        # Rows of the first chunk are read by both chunks; those of the second by itself, and as history by the first.
        assert torch.equal(found[first], torch.full((half, K), half + 2.0 * half))
        assert torch.equal(found[second], torch.full((half, K), float(half)))
        stale = gradient(a, torch.ones(N, K), order, "stale")
        assert torch.equal(stale, torch.full((N, K), float(N)))


def test_chunks_cover_the_part_and_keep_what_belongs_to_a_row():
    graph = block_model(200, 1500, 6, 3, seed=2)
    shard = cut(graph, partition(graph, 2, method="random", seed=1))[1]
    numbers = chunk_numbers(shard, 7, seed=3)
    moved, bounds = renumber(shard, numbers, 7)
    chunks = Chunks(bounds)
    assert bounds[0] == 0 and bounds[-1] == shard.num_owned and min(torch.tensor(bounds).diff()) > 0
    at = {int(row): place for place, row in enumerate(shard.rows)}
    order = torch.tensor([at[int(row)] for row in moved.rows])
    assert torch.equal(order.sort().values, torch.arange(shard.num_owned))
    assert torch.equal(chunks.numbers(), numbers[order])
    for name in ("ids", "degree", "x", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(getattr(moved, name), getattr(shard, name)[order]), name
    assert torch.equal(moved.inner.to_dense(), shard.inner.to_dense()[order][:, order])
    assert torch.equal(moved.halo.to_dense(), shard.halo.to_dense()[order])
    assert torch.equal(moved.ids[moved.send_index], shard.ids[shard.send_index])
    for kind in ("symmetric", "mean"):
        for got, want in zip(getattr(moved, kind)(), getattr(shard, kind)(), strict=True):
            dense = want.to_dense()[order]
            assert torch.equal(got.to_dense(), dense[:, order] if want.num_cols == shard.num_owned else dense)


def test_the_order_is_shuffled_by_epoch_and_part():
    chunks = Chunks(tuple(range(9)), part=0, seed=5)
    orders = [tuple(chunks.order(epoch, part)) for epoch in range(6) for part in range(2)]
    assert all(sorted(order) == list(range(8)) for order in orders) and len(set(orders)) > 8
    fixed = Chunks(tuple(range(9)), part=0, seed=5, shuffle=False)
    assert fixed.order(3) == fixed.order(0) == chunks.order(0) and fixed.order(3, 1) == chunks.order(0, 1)
    firsts = torch.tensor([chunks.order(epoch)[0] for epoch in range(800)])
    assert (torch.bincount(firsts, minlength=8) - 100).abs().max() < 45
