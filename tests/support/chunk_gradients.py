"""Gradients of one aggregation, chunk by chunk, in an order that a test chooses."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from halowire.graph import block_model
from halowire.kernels import Csr
from halowire.layers import Activation, Kept, Rows, Sum
from halowire.layers.gcnii import InitialLayer
from halowire.partitioning import cut, partition
from halowire.schedules import Chunks, ChunkSums, Timeline
from halowire.wire import HaloExchange, Transport

N, K = 12, 3


@dataclass(frozen=True)
class GivenOrder(Chunks):
    """Chunks in an order that a test chooses."""

    given: tuple[int, ...] = ()

    def order(self, epoch: int, part: int | None = None) -> list[int]:
        return list(self.given)


def sums_of(a: torch.Tensor, order: tuple[int, ...], rule: str) -> tuple[ChunkSums, GivenOrder]:
    graph = block_model(N, 30, 4, 2, seed=1)
    shard = cut(graph, partition(graph, 1))[0]
    exchange = HaloExchange(shard, Transport(), torch.device("cpu"))
    rows, cols = a.nonzero(as_tuple=True)
    inner = Csr.from_edges(rows, cols, N, N, a[rows, cols])
    none = Csr(torch.zeros(N + 1, dtype=torch.int64), torch.empty(0, dtype=torch.int32), None, 0)
    count = len(order)
    chunks = GivenOrder(tuple(N * c // count for c in range(count + 1)), given=order)
    return ChunkSums(Sum.of(inner, none, exchange), None, chunks, [K], 1, rule, Timeline()), chunks


def gradient(a: torch.Tensor, w: torch.Tensor, order: tuple[int, ...], rule: str) -> torch.Tensor:
    """``a_grad`` of the linear model ``sum(w * (A x))`` in one epoch whose historical rows are the current ones."""
    sums, chunks = sums_of(a, order, rule)
    layer = InitialLayer(1, Activation(None, None, 0.0, 0), torch.nn.Parameter(torch.zeros(K, K)), 0.1, 0.5)
    x = torch.arange(N * K).float().view(N, K)
    found = torch.zeros(N, K)
    for epoch in range(2):  # the second epoch finds the first one's rows, which are the same
        sums.begin(epoch)
        for chunk in order:
            rows = Rows(chunks.at(chunk), torch.arange(N), training=True)
            room = sums.room(0, layer, rows)
            room.copy_(x[rows.at])
            g = sums.gather(0, layer, room, Kept(), rows)
        sums.turn()
        for chunk in reversed(order):
            rows = Rows(chunks.at(chunk), torch.arange(N), training=True)
            if epoch:
                assert torch.allclose(g if chunk == order[-1] else a[rows.at] @ x, a[rows.at] @ x)
            room = sums.grad_room(0, layer, rows)
            room.copy_(w[rows.at])
            found[rows.at] = sums.scatter(0, layer, room, None, rows)
            sums.done(rows)
        sums.end(epoch)
    return found
