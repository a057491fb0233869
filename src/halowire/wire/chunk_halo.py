"""Chunk halos: the parts of a stage exchange the rows of the chunks they have in work, in lock-step."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from halowire.kernels import Csr
from halowire.partitioning import Shard
from halowire.wire.code_error import MEASURED_ROWS, CodeError
from halowire.wire.feature_exchange import exchange_flat
from halowire.wire.halo_exchange import HaloExchange
from halowire.wire.memory import Memory
from halowire.wire.message import Message, Wire
from halowire.wire.policy import Policy
from halowire.wire.rate import FORWARD
from halowire.wire.route import Route
from halowire.wire.terms import Draw, Terms
from halowire.wire.transport import Transport

RowLists = list[list[Tensor]]
"""Row numbers, int64, by peer and chunk."""


class Numbered(Protocol):
    """The chunks of a part: how many there are, and the chunk of every row."""

    @property
    def count(self) -> int:
        """Number of chunks."""

    def numbers(self) -> Tensor:
        """The chunk of every row, int64 ``[n]``."""


@dataclass(frozen=True, eq=False)
class ChunkRoute:
    """One direction: ``send[p][c]`` are owned rows of this part's chunk ``c`` for peer ``p``, ``take[p][c]`` places in
    the halo for those of ``p``'s chunk ``c``, ``size`` is the number of rows of that halo."""

    send: RowLists
    take: RowLists
    size: int

    def places(self, chunks: list[int]) -> Tensor:
        """Where in the halo the rows land while every part ``p`` has its chunk ``chunks[p]`` in work."""
        return torch.cat(self._taken(chunks))

    def in_work(self, chunks: list[int], part: int, ids: Tensor) -> Route:
        """The route of the chunks in work, seen from ``part``, whose owned rows have the original ``ids``."""
        send, take = [peer[chunks[part]] for peer in self.send], self._taken(chunks)
        counts = [rows.numel() for rows in send], [rows.numel() for rows in take]
        return Route(ids, torch.cat(send), None, *counts, self.size, torch.cat(take))

    def _taken(self, chunks: list[int]) -> list[Tensor]:
        return [peer[chunk] for peer, chunk in zip(self.take, chunks, strict=True)]


@dataclass(frozen=True, eq=False)
class Routes:
    """Forward: rows that peers' edges read. Backward: gradients of rows ``v`` with an edge from a peer's row ``u``.

    Backward is in pull form: the owner of ``v`` sends the gradient of its aggregate, and the owner of ``u`` multiplies
    by ``transposed`` ``[n, size]``, its part of ``A^T``. So each row travels once per peer, whatever the chunks; the
    edges themselves travel once, at set-up. In an undirected graph both directions carry the same rows.
    """

    forward: ChunkRoute
    backward: ChunkRoute
    transposed: Csr

    @staticmethod
    def of(shard: Shard, halo: Csr, chunks: Numbered, exchange: HaloExchange) -> Routes:
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
        forward = ChunkRoute(send, take, shard.num_halo)
        return Routes(forward, *_backward(shard, halo, chunks, offset, exchange.transport))


def _backward(
    shard: Shard, halo: Csr, chunks: Numbered, offset: list[int], transport: Transport
) -> tuple[ChunkRoute, Csr]:
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
    numbers = _swap([own[rows] for rows in needed], transport)
    places, sources, weights = (_swap([edge[kind] for edge in edges], transport) for kind in range(3))
    start = [0, *torch.tensor([peer.numel() for peer in numbers]).cumsum(0).tolist()]
    sent = torch.split(shard.send_index, list(shard.send_counts))
    rows_of = torch.cat([sent[peer][sources[peer]] for peer in range(parts)])
    columns_of = torch.cat([places[peer] + start[peer] for peer in range(parts)])
    matrix = Csr.from_edges(rows_of, columns_of, shard.num_owned, start[-1], torch.cat(weights))
    send = [_by_chunk(rows, own[rows], chunks.count) for rows in needed]
    take = [_by_chunk(torch.arange(start[peer], start[peer + 1]), numbers[peer], chunks.count) for peer in range(parts)]
    return ChunkRoute(send, take, start[-1]), matrix


def _swap(parts: list[Tensor], transport: Transport) -> list[Tensor]:
    """Send ``parts[p]`` to every peer ``p``; what each of them sent."""
    counts = [part.numel() for part in parts]
    table = torch.zeros(transport.size, transport.size, dtype=torch.int64)
    table[transport.rank] = torch.tensor(counts)
    transport.all_reduce(table, "agreement on the chunks", account=None)
    expected = [int(count) for count in table[:, transport.rank]]
    return list(torch.split(exchange_flat(torch.cat(parts), counts, expected, transport), expected))


def _by_chunk(rows: Tensor, numbers: Tensor, count: int) -> list[Tensor]:
    """``rows`` grouped by their chunk, in the order given."""
    order = numbers.argsort(stable=True)
    return list(torch.split(rows[order], torch.bincount(numbers, minlength=count).tolist()))


class ChunkExchange:
    """``start`` sends the rows of this part's chunk that peers need, ``finish`` writes theirs into the halo."""

    def __init__(self, routes: Routes, transport: Transport, policy: Policy, ids: Tensor) -> None:
        """``ids``: original ids of the owned rows."""
        self.routes = routes
        self._wire = Wire(transport, Memory(torch.device("cpu")))
        self._error = CodeError(transport.ledger)
        self._policy = policy
        self._ids = ids

    def start(self, rows: Tensor, chunks: list[int], epoch: int, layer: int, direction: str) -> Message:
        """Launch from the owned ``rows`` ``[n, k]``; ``chunks``: what every part has in work."""
        rank = self._wire.transport.rank
        way = self.routes.forward if direction == FORWARD else self.routes.backward
        route = way.in_work(chunks, rank, self._ids)
        terms = Terms.of(self._policy, epoch, layer, direction, rows.shape[1], Draw.chunk(layer, direction))
        where = f"epoch {epoch}, layer {layer}, {direction}, chunk {chunks[rank]}"
        message = Message(self._wire, route, terms, where).open(layer, direction)
        message.launch(rows)
        if chunks[rank] == 0:
            assert route.index is not None
            self._error.measure(message, rows, index=route.index[:MEASURED_ROWS])
        return message

    def finish(self, message: Message, halo: Tensor) -> None:
        """Wait, and write what arrived to its places in ``halo`` ``[h, k]``; columns not sent become zero."""
        message.wait()
        with self._wire.transport.ledger.phase("pack"):
            message.write(halo)

    def places(self, route: ChunkRoute, chunks: list[int]) -> Tensor:
        """Where in the halo the rows of the chunks in work are."""
        return route.places(chunks)
