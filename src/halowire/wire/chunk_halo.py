"""Chunk halos: the parts of a stage exchange the rows of the chunks they have in work, in lock-step."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.kernels import Csr, sent_over
from halowire.partitioning import Shard
from halowire.wire.arrived import refuse_outside, refuse_wrong
from halowire.wire.code_error import MEASURED_ROWS, CodeError
from halowire.wire.halo_exchange import HaloExchange
from halowire.wire.memory import Memory
from halowire.wire.message import Message, Wire
from halowire.wire.policy import FORWARD, Policy
from halowire.wire.route import Route
from halowire.wire.terms import Draw, Terms
from halowire.wire.transport import Transport

WHERE = "agreement on the chunks"
RowLists = list[list[Tensor]]
"""Row numbers, int64, by peer and chunk."""


@dataclass(frozen=True, eq=False)
class ChunkRoute:
    """The rows of one direction, by peer and chunk: ``send[p][c]`` are the owned rows of this part's chunk ``c`` that
    peer ``p`` gets, ``take[p][c]`` the halo rows that ``p``'s chunk ``c`` fills; the halo has ``size`` rows.
    Routes are planned on the host; the lists are kept where the rows are."""

    send: RowLists
    take: RowLists
    size: int

    @staticmethod
    def of(rows: Sequence[Tensor], own: Tensor, numbers: Sequence[Tensor], count: int) -> ChunkRoute:
        """Group by chunk the owned rows ``rows[p]`` for every peer ``p``, and the halo rows that ``p`` fills.

        ``own`` ``[n]`` is the chunk of every owned row, ``numbers[p]`` the chunks of the rows that come from ``p``, and
        ``count`` the number of chunks of a part.
        """
        send = [_by_chunk(mine, own[mine], count) for mine in rows]
        ends = list(itertools.accumulate((peer.numel() for peer in numbers), initial=0))
        spans = [torch.arange(first, last) for first, last in itertools.pairwise(ends)]
        take = [_by_chunk(span, peer, count) for span, peer in zip(spans, numbers, strict=True)]
        return ChunkRoute(send, take, ends[-1])

    def to(self, device: torch.device) -> ChunkRoute:
        """The same route with its lists on ``device``."""
        send, take = ([[sent_over(rows, device) for rows in peer] for peer in part] for part in (self.send, self.take))
        return ChunkRoute(send, take, self.size)

    def places(self, chunks: list[int]) -> Tensor:
        """The halo rows that arrive while every part ``p`` has its chunk ``chunks[p]`` in work."""
        return torch.cat([peer[chunk] for peer, chunk in zip(self.take, chunks, strict=True)])

    def in_work(self, chunks: list[int], part: int, ids: Tensor) -> Route:
        """The route of the chunks in work, seen from ``part``, whose owned rows have the original ``ids``."""
        send = [peer[chunks[part]] for peer in self.send]
        received = [peer[chunk].numel() for peer, chunk in zip(self.take, chunks, strict=True)]
        sent = [rows.numel() for rows in send]
        return Route(ids, torch.cat(send), None, sent, received, self.size, self.places(chunks))


@dataclass(frozen=True, eq=False)
class Routes:
    """The routes of both directions. Forward carries rows that peers' edges read, backward gradients in pull form.

    For an edge from a row ``u`` to a row ``v`` of another part, the owner of ``v`` sends the gradient of the aggregate
    of ``v``, and the owner of ``u`` multiplies it by ``transposed`` ``[n, size]``, its part of ``A^T``. So each row
    travels once per peer, whatever the chunks. The edges themselves travel once, at set-up. In an undirected graph both
    directions carry the same rows.
    """

    forward: ChunkRoute
    backward: ChunkRoute
    transposed: Csr

    @staticmethod
    def of(shard: Shard, halo: Csr, own: Tensor, count: int, exchange: HaloExchange) -> Routes:
        """Agree on the routes with the peers; ``halo`` ``[n, h]``: the normalised matrix of edges from other parts.

        ``own`` ``[n]``, on the host, is the chunk of every owned row, ``count`` the number of chunks of a part. The
        routes are those of rows on the device of ``exchange``.
        """
        device = exchange.device
        theirs = exchange.fetch(sent_over(own.float()[:, None], device))[:, 0].long().cpu()
        refuse_outside(theirs, shard.recv_counts, count, "the chunk of a row", exchange.transport, WHERE)
        sent = torch.split(shard.send_index, list(shard.send_counts))
        forward = ChunkRoute.of(sent, own, torch.split(theirs, list(shard.recv_counts)), count)
        needed, numbers, transposed = _backward(shard, halo.to(own.device), own, count, sent, exchange.transport)
        backward = ChunkRoute.of(needed, own, numbers, count)
        return Routes(forward.to(device), backward.to(device), transposed.to(device))


def _backward(
    shard: Shard, halo: Csr, own: Tensor, count: int, sent: Sequence[Tensor], transport: Transport
) -> tuple[list[Tensor], list[Tensor], Csr]:
    """Tell every peer which owned rows read the peer's rows: their chunks, the edges and the weights.

    Returns, for every peer, the owned rows that read its rows and the chunks of its rows that read owned rows; and the
    matrix of the edges from owned rows to the peers' rows.
    """
    row, column = halo.row_index().long(), halo.indices.long()
    weight = torch.ones(row.numel()) if halo.weight is None else halo.weight
    needed: list[Tensor] = []
    edges: list[tuple[Tensor, Tensor, Tensor]] = []
    for first, last in itertools.pairwise(itertools.accumulate(shard.recv_counts, initial=0)):
        mine = (column >= first) & (column < last)
        rows, places = torch.unique(row[mine], return_inverse=True)
        needed.append(rows)
        edges.append((places, column[mine] - first, weight[mine]))
    numbers = _swap([own[rows] for rows in needed], transport)
    places, sources, weights = (_swap([edge[kind] for edge in edges], transport) for kind in range(3))
    rows, listed = [peer.numel() for peer in numbers], [peer.numel() for peer in places]
    refuse_outside(torch.cat(numbers), rows, count, "the chunk of a row", transport, WHERE)
    refuse_outside(torch.cat(places), listed, rows, "the place of a row", transport, WHERE)
    for kind in (sources, weights):
        uneven = torch.tensor([one.numel() != count for one, count in zip(kind, listed, strict=True)])
        refuse_wrong(uneven, [1] * len(listed), "lists of edges differ in length", transport, WHERE)
    refuse_outside(torch.cat(sources), listed, shard.send_counts, "the source of an edge", transport, WHERE)
    ends = list(itertools.accumulate(rows, initial=0))
    rows_of = torch.cat([mine[source] for mine, source in zip(sent, sources, strict=True)])
    columns_of = torch.cat([place + start for place, start in zip(places, ends, strict=False)])
    return needed, numbers, Csr.from_edges(rows_of, columns_of, shard.num_owned, ends[-1], torch.cat(weights))


def _swap(parts: list[Tensor], transport: Transport) -> list[Tensor]:
    """Send ``parts[p]`` to every peer ``p``; returns what each peer sent."""
    counts = [part.numel() for part in parts]
    expected = transport.swap_counts(counts, WHERE)
    return list(torch.split(transport.swap(torch.cat(parts), counts, expected, WHERE), expected))


def _by_chunk(rows: Tensor, numbers: Tensor, count: int) -> list[Tensor]:
    """``rows`` grouped by their chunk, in the order given."""
    order = numbers.argsort(stable=True)
    return list(torch.split(rows[order], torch.bincount(numbers, minlength=count).tolist()))


class ChunkExchange:
    """``start`` sends the rows of this part's chunk that peers need, ``finish`` writes the peers' rows to the halo."""

    def __init__(self, routes: Routes, transport: Transport, policy: Policy, ids: Tensor) -> None:
        """``ids`` are the original ids of the owned rows, on the device where the rows and the routes are."""
        self.routes = routes
        self._wire = Wire(transport, Memory(ids.device))
        self._error = CodeError(transport.ledger)
        self._policy = policy
        self._ids = ids

    def start(self, rows: Tensor, chunks: list[int], epoch: int, layer: int, direction: str) -> Message:
        """Launch a message from the owned ``rows`` ``[n, k]``; part ``p`` has its chunk ``chunks[p]`` in work."""
        rank = self._wire.transport.rank
        way = self.routes.forward if direction == FORWARD else self.routes.backward
        route = way.in_work(chunks, rank, self._ids)
        terms = Terms.of(self._policy, Draw.chunk(layer, direction), epoch, rows.shape[1], device=rows.device)
        where = f"epoch {epoch}, layer {layer}, {direction}, chunk {chunks[rank]}"
        message = Message(self._wire, route, terms, where).open(layer, direction)
        message.launch(rows)
        if chunks[rank] == 0:
            assert route.index is not None
            self._error.measure(message, rows, index=route.index[:MEASURED_ROWS])
        return message

    def finish(self, message: Message, halo: Tensor) -> None:
        """Wait, and write the rows that arrived to their places in ``halo`` ``[h, k]``; columns not sent become 0."""
        message.wait()
        with self._wire.packing():
            message.write(halo)
