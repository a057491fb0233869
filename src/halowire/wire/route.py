"""Routes: which rows of which matrix go to which peer, where arriving rows land, and in which pieces rows leave."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from halowire.kernels import Csr, row_keys, sent_over
from halowire.partitioning import HaloLists
from halowire.wire.policy import FORWARD

if TYPE_CHECKING:
    from halowire.wire.hand_on import HandOn

PIECES = 4
"""Number of pieces of a large message to one peer. Computing its rows hides the sending of all but the last piece."""
ROW_STREAM = 102
"""The stream of the random numbers that sample rows."""


class Piece(NamedTuple):
    """Piece ``number`` of the message for ``peer``: the places ``start`` to ``stop`` of a list grouped by peer."""

    peer: int
    number: int
    start: int
    stop: int

    @property
    def at(self) -> slice:
        """The places of the piece, as a slice."""
        return slice(self.start, self.stop)

    def times(self, row_bytes: int) -> Piece:
        """The same piece, counted in bytes."""
        return Piece(self.peer, self.number, self.start * row_bytes, self.stop * row_bytes)


@dataclass(frozen=True)
class Pieces:
    """The pieces that leave and the pieces that arrive.

    ``cuts`` are numbers of rows, ascending up to the boundary: when the rows before ``cuts[i]`` are computed, the
    pieces ``leaving[: ready[i]]`` are complete. Both ends derive the same pieces from the number of rows alone.
    """

    leaving: tuple[Piece, ...]
    arriving: tuple[Piece, ...]
    cuts: tuple[int, ...]
    ready: tuple[int, ...]

    @staticmethod
    def of(index: Tensor, sent: Sequence[int], received: Sequence[int], boundary: int, least: int) -> Pieces:
        """Cut messages of at least ``least`` rows; ``index`` gives the owned row of every place of the send list."""
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
        """The pieces of the way back, where every piece may leave alone."""
        return Pieces(self.arriving, self.leaving, (), ())


def list_pieces(counts: Sequence[int], least: int) -> list[Piece]:
    """The pieces of a list with ``counts[p]`` rows for every peer ``p``: all first pieces, then all second ones, ..."""
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
        ids: original ids of the rows of the matrix at the sender, int64 ``[n]``.
        index: the row of the sender's matrix at every place of the message; None: row ``i`` at place ``i``.
        targets: the inverse of ``index`` as a matrix ``[n, m]``, where rows go to several peers; else None.
        sent: how many rows go to every peer.
        received: how many rows come from every peer.
        size: number of rows of the receiver's matrix.
        places: the row of the receiver's matrix where every place lands; None: place ``i`` lands in row ``i``.
        sums: on the way back, the matrix ``[n, m]`` that adds arriving gradients to the owned rows; else None.
        share: the share of all rows that travels.
        pieces: the pieces in which the message leaves; None: it leaves as a whole.
        hand_on: how rows that have arrived are handed on within the machine, and completed; None: they are complete.
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
    hand_on: HandOn | None = None

    @staticmethod
    def to_peer(ids: Tensor, peer: int, peers: int, *, sends: bool) -> Route:
        """The route of all rows of a matrix, with the original ``ids``, to ``peer`` or from it."""
        count = ids.numel()
        full = [count if other == peer else 0 for other in range(peers)]
        none = [0] * peers
        return Route(ids, None, None, *((full, none) if sends else (none, full)), size=count)


Counts = tuple[tuple[int, ...], tuple[int, ...]]
"""How many rows go to every peer, and how many rows come from every peer."""


class HaloRoutes:
    """The routes of a shard: boundary rows to the peers' halos and back, all of them or those sampled in an epoch."""

    def __init__(
        self,
        shard: HaloLists,
        device: torch.device,
        seed: int,
        piece_rows: int | None,
        back: Csr | None = None,
        hand_on: HandOn | None = None,
    ) -> None:
        """``seed`` draws the sampled rows; messages of ``piece_rows`` rows or more leave in pieces (None: none do).

        ``back`` ``[rows, m]`` adds the gradients that arrive to owned rows; by default each to the row that was sent.
        ``hand_on``: how the workers of a machine share the rows of ``shard``.
        """
        # The shard itself, with features and edges, is not kept alive by its routes.
        self._seed = seed
        self._back = back
        self._hand_on = hand_on
        self.send_index = shard.send_index
        self._send_ids = shard.ids[shard.send_index]
        self._sampled_from = shard.halo_ids
        self.counts = (shard.send_counts, shard.recv_counts)
        self.boundary_ids = sent_over(shard.ids[: shard.num_boundary], device)
        self.halo_ids = sent_over(shard.halo_ids, device)
        self.pieces: Pieces | None = None
        if piece_rows is not None:
            self.pieces = Pieces.of(shard.send_index, *self.counts, shard.num_boundary, piece_rows)
        self._all = self._both(shard.send_index, None, self.counts, 1.0, self.pieces, back)
        self._sampled: tuple[tuple[int, float], tuple[Route, Route]] | None = None

    def all(self, direction: str) -> Route:
        """The route of all rows."""
        return self._all[direction != FORWARD]

    def sampled(self, direction: str, share: float, epoch: int) -> Route:
        """The route of the rows that travel in ``epoch``: a ``share`` of the rows of every peer."""
        if share == 1:
            return self.all(direction)
        if self._sampled is None or self._sampled[0] != (epoch, share):
            kept, sent = row_subset(self._send_ids, self.counts[0], share, self._seed, epoch)
            places, received = row_subset(self._sampled_from, self.counts[1], share, self._seed, epoch)
            back = None if self._back is None else self._back.select_columns(kept)
            both = self._both(self.send_index[kept], places, (sent, received), share, None, back)
            self._sampled = ((epoch, share), both)
        return self._sampled[1][direction != FORWARD]

    def _both(
        self,
        index: Tensor,
        places: Tensor | None,
        counts: Counts,
        share: float,
        pieces: Pieces | None,
        back: Csr | None,
    ) -> tuple[Route, Route]:
        """The route out and the route back, which is the same list read from the other end.

        ``index``, ``places`` and ``back`` are on the host, where routes are planned without waiting for the device.
        """
        boundary, halo, (sent, received) = self.boundary_ids, self.halo_ids, counts
        inverse = inverse_of(index, boundary.numel()).to(boundary.device)
        index = sent_over(index, boundary.device)
        places = None if places is None else sent_over(places, boundary.device)
        hand_on = self._hand_on
        size = halo.numel() if hand_on is None else hand_on.num_halo
        out = Route(boundary, index, inverse, sent, received, size, places, share=share, pieces=pieces, hand_on=hand_on)
        # Gradients that are added up on the machine first are all ready at once.
        turned = None if pieces is None or hand_on is not None else pieces.turned()
        sums = inverse if back is None else back.to(boundary.device)
        home = Route(halo, places, None, received, sent, index.numel(), sums=sums, share=share, pieces=turned)
        return out, home


def sample_size(count: int, share: float) -> int:
    """Number of sampled rows among the ``count`` rows for one peer: ``max(1, round(p m))``, and 0 of 0."""
    return min(count, max(1, round(share * count)))


def row_subset(
    ids: Tensor, counts: tuple[int, ...], share: float, seed: int, epoch: int
) -> tuple[Tensor, tuple[int, ...]]:
    """Ascending positions of the sampled rows of a list grouped by peer, and their number in every group.

    ``ids`` are the original ids of the list's rows, ``counts`` the sizes of its groups. Of each group, the
    :func:`sample_size` rows with the smallest random keys travel; owner and receiver hold the same list, so they agree.
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


def whole_pieces(sizes: Sequence[int]) -> list[Piece]:
    """The pieces of a message that is not cut: one for every peer that gets bytes."""
    ends = list(itertools.accumulate(sizes))
    return [Piece(peer, 0, end - size, end) for peer, (size, end) in enumerate(zip(sizes, ends, strict=True)) if size]
