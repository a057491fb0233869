"""Pieces: a message to a peer is cut into a few, so that the first rows leave while the others are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

PIECES = 4
"""So many for every peer that gets enough rows; the last quarter of a message is what computing it cannot hide."""


class Piece(NamedTuple):
    """The places ``start`` to ``stop`` of a list that is grouped by peer; piece ``number`` of those of ``peer``."""

    peer: int
    number: int
    start: int
    stop: int

    def times(self, row_bytes: int) -> Piece:
        """The same in bytes."""
        return Piece(self.peer, self.number, self.start * row_bytes, self.stop * row_bytes)


@dataclass(frozen=True)
class Pieces:
    """The pieces of the send list and of the halo list, each in the order in which they leave.

    ``cuts`` are numbers of owned rows, ascending up to the boundary: when the rows before ``cuts[i]`` are computed, the
    pieces ``sent[: ready[i]]`` are complete. Both ends find the same pieces, from the number of rows alone.
    """

    sent: tuple[Piece, ...]
    halo: tuple[Piece, ...]
    cuts: tuple[int, ...]
    ready: tuple[int, ...]

    @staticmethod
    def of(index: Tensor, sent: Sequence[int], received: Sequence[int], boundary: int, least: int) -> Pieces:
        """Cut the messages of at least ``least`` rows; ``index`` are the owned rows of the send list."""
        pieces = list_pieces(sent, least)
        needed = [int(index[piece.start : piece.stop].max()) + 1 for piece in pieces]
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


def list_pieces(counts: Sequence[int], least: int) -> list[Piece]:
    """The pieces of a list with ``counts[p]`` rows for every peer ``p``: all first pieces, all second ones, ..."""
    found, start = [], 0
    for peer, count in enumerate(counts):
        parts = PIECES if count >= max(least, PIECES) else min(count, 1)
        bounds = (
            [start + count * number // PIECES for number in range(PIECES + 1)] if parts > 1 else [start, start + count]
        )
        found += [Piece(peer, number, bounds[number], bounds[number + 1]) for number in range(parts)]
        start += count
    return sorted(found, key=lambda piece: (piece.number, piece.peer))
