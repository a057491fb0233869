"""Routes: which rows of which matrix go to which peer, where those that arrive land, and in which pieces they leave."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from halowire.kernels import Csr, row_keys
from halowire.partitioning import Shard
from halowire.wire.policy import FORWARD

PIECES = 4
"""Pieces of a message to a peer that gets enough rows; computing the rows cannot hide the last quarter of a message."""
ROW_STREAM = 102
"""The stream of the random numbers that sample rows."""


class Piece(NamedTuple):
    """The places ``start`` to ``stop`` of a list that is grouped by peer; piece ``number`` of those of ``peer``."""

    peer: int
    number: int
    start: int
    stop: int

    @property
    def at(self) -> slice:
        """The places themselves."""
        return slice(self.start, self.stop)

    def times(self, row_bytes: int) -> Piece:
        """The same piece, counted in bytes."""
        return Piece(self.peer, self.number, self.start * row_bytes, self.stop * row_bytes)


@dataclass(frozen=True)
class Pieces:
    """The pieces that leave and the pieces that arrive, each in the order in which they leave their sender.

    ``cuts`` are numbers of rows, ascending up to the boundary: when the rows before ``cuts[i]`` are computed, the
    pieces ``leaving[: ready[i]]`` are complete. Both ends find the same pieces, from the number of rows alone.
    """

    leaving: tuple[Piece, ...]
    arriving: tuple[Piece, ...]
    cuts: tuple[int, ...]
    ready: tuple[int, ...]

    @staticmethod
    def of(index: Tensor, sent: Sequence[int], received: Sequence[int], boundary: int, least: int) -> Pieces:
        """Cut the messages of at least ``least`` rows; ``index`` are the owned rows of the send list."""
        pieces = list_pieces(sent, least)
        needed = [int(index[piece.at].max()) + 1 for piece in pieces]
        cut_peers = {piece.peer for piece in pieces if piece.number}
        ends: dict[int, int] = {}
        for piece, rows in zip(pieces, needed, strict=True):
            if piece.peer in cut_peers and piece.number < PIECES - 1:
                ends[piece.number] = max(rows, ends.get(piece.number, 0))
        cuts = (*sorted({rows for rows in ends.values() if rows < boundary}), boundary)
        first = [next(i for i, cut in enumerate(cuts) if rows <= cut) for rows in needed]
        order = sorted(range(len(pieces)), key=lambda i: (first[i], pieces[i].number, pieces[i].peer))
        ready = tuple(sum(at <= i for at in first) for i in range(len(cuts)))
        return Pieces(tuple(pieces[i] for i in order), tuple(list_pieces(received, least)), cuts, ready)

    def turned(self) -> Pieces:
        """The pieces of the way back, on which every piece is complete by itself."""
        return Pieces(self.arriving, self.leaving, (), ())


def list_pieces(counts: Sequence[int], least: int) -> list[Piece]:
    """The pieces of a list with ``counts[p]`` rows for every peer ``p``: all first pieces, all second ones, ..."""
    found = []
    start = 0
    for peer, count in enumerate(counts):
        parts = PIECES if count >= max(least, PIECES) else min(count, 1)
        ends = [start + count * number // max(parts, 1) for number in range(parts + 1)]
        found += [Piece(peer, number, *ends[number : number + 2]) for number in range(parts)]
        start += count
    return sorted(found, key=lambda piece: (piece.number, piece.peer))


@dataclass(frozen=True, eq=False)
class Route:
    """The way of one message: its list of rows, grouped by peer, at the sender and at the receiver.

    Attributes:
        ids: original ids of the rows of the matrix that is sent from, int64 ``[n]``.
        index: the row of that matrix at every place of the message; None: row ``i`` at place ``i``.
        targets: the inverse of ``index`` as a matrix ``[n, m]``, where rows go to several peers; else None.
        sent: how many rows go to every peer.
        received: how many rows come from every peer.
        size: rows of the matrix in which they land.
        places: the rows of that matrix where they land; None: row ``i`` from place ``i``.
        sums: the matrix ``[n, m]`` that adds what arrives to the rows it belongs to, on the way back; else None.
        share: the share of all rows that travels.
        pieces: the pieces in which the message leaves; None: it leaves as a whole.
    """

    ids: Tensor
    index: Tensor | None
    targets: Csr | None
    sent: Sequence[int]
    received: Sequence[int]
    size: int
    places: Tensor | None = None
    sums: Csr | None = None
    share: float = 1.0
    pieces: Pieces | None = None

    @staticmethod
    def to_peer(ids: Tensor, peer: int, peers: int, *, sends: bool) -> Route:
        """All rows of a matrix to ``peer``, or from it; ``ids`` are those of the rows."""
        count = ids.numel()
        full = [count if other == peer else 0 for other in range(peers)]
        none = [0] * peers
        return Route(ids, None, None, *((full, none) if sends else (none, full)), size=count)


Counts = tuple[tuple[int, ...], tuple[int, ...]]
"""How many rows go to every peer, and how many come from each."""


class HaloRoutes:
    """The routes of a shard: boundary rows to the peers' halos and back, all of them or those sampled in an epoch."""

    def __init__(self, shard: Shard, device: torch.device, seed: int, piece_rows: int | None) -> None:
        """``seed`` draws the sampled rows; messages of ``piece_rows`` rows leave in pieces, with None none does."""
        # The shard itself, with features and edges, is not kept alive by its routes.
        self._seed = seed
        self.send_index = shard.send_index
        self._send_ids = shard.ids[shard.send_index]
        self._sampled_from = shard.halo_ids
        self.counts = (shard.send_counts, shard.recv_counts)
        self.boundary_ids = shard.ids[: shard.num_boundary].to(device)
        self.halo_ids = shard.halo_ids.to(device)
        self.pieces: Pieces | None = None
        if piece_rows is not None:
            self.pieces = Pieces.of(shard.send_index, *self.counts, shard.num_boundary, piece_rows)
        self._all = self._both(shard.send_index, None, self.counts, 1.0, self.pieces)
        self._sampled: tuple[tuple[int, float], tuple[Route, Route]] | None = None

    def all(self, direction: str) -> Route:
        """The route of all rows."""
        return self._all[direction != FORWARD]

    def sampled(self, direction: str, share: float, epoch: int) -> Route:
        """The route of the rows that travel in ``epoch``, a ``share`` of those for every peer."""
        if share == 1:
            return self.all(direction)
        if self._sampled is None or self._sampled[0] != (epoch, share):
            kept, sent = row_subset(self._send_ids, self.counts[0], share, self._seed, epoch)
            places, received = row_subset(self._sampled_from, self.counts[1], share, self._seed, epoch)
            both = self._both(self.send_index[kept], places, (sent, received), share, None)
            self._sampled = ((epoch, share), both)
        return self._sampled[1][direction != FORWARD]

    def _both(
        self, index: Tensor, places: Tensor | None, counts: Counts, share: float, pieces: Pieces | None
    ) -> tuple[Route, Route]:
        """The way out and the way back, which is the same list read from the other end."""
        boundary, halo, (sent, received) = self.boundary_ids, self.halo_ids, counts
        inverse = inverse_of(index, boundary.numel())
        out = Route(boundary, index, inverse, sent, received, halo.numel(), places, share=share, pieces=pieces)
        turned = None if pieces is None else pieces.turned()
        back = Route(halo, places, None, received, sent, index.numel(), sums=inverse, share=share, pieces=turned)
        return out, back


def sample_size(count: int, share: float) -> int:
    """How many of ``count`` rows that go to one peer travel: ``max(1, round(p m))``, none of none."""
    return min(count, max(1, round(share * count)))


def row_subset(
    ids: Tensor, counts: tuple[int, ...], share: float, seed: int, epoch: int
) -> tuple[Tensor, tuple[int, ...]]:
    """Positions of the sampled rows of a list grouped by peer, ascending, and how many each group keeps.

    ``ids`` are the original ids of the list, ``counts`` its groups. Of each group, the :func:`sample_size` rows with
    the smallest keys stay; owner and receiver hold the same list and so agree.
    """
    keys = row_keys(seed, epoch, 0, ids, ROW_STREAM)
    sizes = tuple(sample_size(count, share) for count in counts)
    groups = zip(torch.split(keys, list(counts)), sizes, itertools.accumulate(counts, initial=0), strict=False)
    kept = [start + group.argsort()[:size].sort().values for group, size, start in groups]
    return (torch.cat(kept) if kept else torch.empty(0, dtype=torch.int64)), sizes


def inverse_of(index: Tensor, rows: int) -> Csr:
    """The matrix ``[rows, m]`` with the places of every row in the list ``index`` ``[m]``."""
    count = index.numel()
    places = index.new_empty(count).copy_(index.new_ones(count).cumsum(0) - 1)
    return Csr.from_edges(index, places, rows, count)
