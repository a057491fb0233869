"""Which rows travel between parts when a chunk is in work, forward and backward, known to both ends."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.kernels import Csr
from halowire.partitioning import Shard
from halowire.schedules.chunks import Chunks
from halowire.wire import HaloExchange
from halowire.wire.features import exchange_flat

Rows = list[list[Tensor]]
"""Row numbers, int64, by peer and chunk."""


@dataclass(frozen=True, eq=False)
class Route:
    """One direction: ``send[p][c]`` are owned rows of this part's chunk ``c`` for peer ``p``, ``take[p][c]`` places in
    the halo for those of ``p``'s chunk ``c``, ``size`` of that halo."""

    send: Rows
    take: Rows
    size: int


@dataclass(frozen=True, eq=False)
class Routes:
    """Forward: rows that peers' edges read. Backward: gradients of rows ``v`` with an edge from a peer's row ``u``.

    Backward is in pull form: the owner of ``v`` sends the gradient of its aggregate, and the owner of ``u`` multiplies
    by ``transposed`` ``[n, size]``, its part of ``A^T``. So each row travels once per peer, whatever the chunks; the
    edges themselves travel once, at set-up. In an undirected graph both directions carry the same rows.
    """

    forward: Route
    backward: Route
    transposed: Csr

    @staticmethod
    def of(shard: Shard, halo: Csr, chunks: Chunks, exchange: HaloExchange) -> Routes:
        """Agree with the peers; ``halo`` ``[n, h]`` is the normalised matrix of the edges from other parts."""
        own = chunks.numbers()
        theirs = exchange.fetch(own.float()[:, None], layer=0)[:, 0].long()
        offset = [0, *torch.tensor(shard.recv_counts).cumsum(0).tolist()]
        send = [
            _by_chunk(rows, own[rows], chunks.count) for rows in torch.split(shard.send_index, list(shard.send_counts))
        ]
        take = [
            _by_chunk(torch.arange(first, last), theirs[first:last], chunks.count)
            for first, last in itertools.pairwise(offset)
        ]
        forward = Route(send, take, shard.num_halo)
        return Routes(forward, *_backward(shard, halo, chunks, offset, exchange))


def _backward(shard: Shard, halo: Csr, chunks: Chunks, offset: list[int], exchange: HaloExchange) -> tuple[Route, Csr]:
    """Every part tells its peers which of its rows read theirs: row, edge and weight."""
    own, parts = chunks.numbers(), len(offset) - 1
    row, column = halo.row_index().long(), halo.indices.long()
    weight = torch.ones(row.numel()) if halo.weight is None else halo.weight
    needed: list[Tensor] = []
    edges: list[tuple[Tensor, Tensor, Tensor]] = []
    for first, last in itertools.pairwise(offset):
        mine = (column >= first) & (column < last)
        rows, places = torch.unique(row[mine], return_inverse=True)
        needed.append(rows)
        edges.append((places, column[mine] - first, weight[mine]))

    def swap(parts_of: list[Tensor]) -> list[Tensor]:
        counts = _swap_counts([part.numel() for part in parts_of], exchange)
        flat = exchange_flat(torch.cat(parts_of), [p.numel() for p in parts_of], counts, exchange.transport)
        return list(torch.split(flat, counts))

    numbers = swap([own[rows] for rows in needed])
    places, sources, weights = (swap([edge[kind] for edge in edges]) for kind in range(3))
    start = [0, *torch.tensor([peer.numel() for peer in numbers]).cumsum(0).tolist()]
    sent = torch.split(shard.send_index, list(shard.send_counts))
    rows_of = torch.cat([sent[peer][sources[peer]] for peer in range(parts)])
    columns_of = torch.cat([places[peer] + start[peer] for peer in range(parts)])
    matrix = Csr.from_edges(rows_of, columns_of, shard.num_owned, start[-1], torch.cat(weights))
    send = [_by_chunk(rows, own[rows], chunks.count) for rows in needed]
    take = [_by_chunk(torch.arange(start[peer], start[peer + 1]), numbers[peer], chunks.count) for peer in range(parts)]
    return Route(send, take, start[-1]), matrix


def _swap_counts(counts: list[int], exchange: HaloExchange) -> list[int]:
    """What every peer has for this worker."""
    transport = exchange.transport
    table = torch.zeros(transport.size, transport.size, dtype=torch.int64)
    table[transport.rank] = torch.tensor(counts)
    transport.all_reduce(table, "agreement on the chunks", account=None)
    return [int(count) for count in table[:, transport.rank]]


def _by_chunk(rows: Tensor, numbers: Tensor, count: int) -> list[Tensor]:
    """``rows`` grouped by their chunk, in the order given."""
    order = numbers.argsort(stable=True)
    return list(torch.split(rows[order], torch.bincount(numbers, minlength=count).tolist()))
