"""Loading: a halo message while it is written; its pieces leave as soon as their rows are computed.

With delta coding both ends hold the same memory ``m`` of a row, at first 0. What travels is ``Q(h - g m)``; the
receiver uses ``r = g m + Q(h - g m)``, and both go on from ``m <- g m + a Q(h - g m)``, with the decay ``g`` and the
gain ``a``. A code that shortens what it codes (``levels``) learns rows that stand still with ``a = 1``. An unbiased one
may lose several times what it codes (``minmax`` at one bit), and ``a = 1`` would pile that up; with a small gain
(Mishchenko et al. 2019) ``m`` still finds the row, ``r`` is unbiased in every epoch, and its noise shrinks with
``h - m``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.kernels import Csr, empty, row_range, take_rows
from halowire.wire.codec import Packed, Source
from halowire.wire.memory import Memory
from halowire.wire.pieces import Piece
from halowire.wire.rate import FORWARD
from halowire.wire.terms import Terms
from halowire.wire.transport import Pending, Transport


@dataclass(frozen=True, eq=False)
class Wire:
    """What all messages of a shard share: ids of the rows, the transport, what is remembered, the decay of deltas."""

    transport: Transport
    memory: Memory
    boundary_ids: Tensor
    halo_ids: Tensor
    decay: float
    gain: float


@dataclass(frozen=True, eq=False)
class Flight:
    """A halo message under way, and the terms it was sent under."""

    pending: Pending
    terms: Terms


class Loading:
    """One message under ``terms``; ``slot`` tells apart messages of one kind that may be under way together.

    Forward, :meth:`add` says how many of the owned rows are computed; backward, which piece of the halo's gradients is.
    What cannot be cut (sampled rows, graded bits, graphics memory) is coded and sent with its last row. ``late``: the
    rows to be used meanwhile are those of ``previous``, the message of the epoch before.
    """

    def __init__(self, wire: Wire, terms: Terms, slot: int, previous: Flight | None = None, late: bool = False) -> None:
        self.previous, self.late = previous, late
        self._wire, self.terms = wire, terms
        self._sizes, self._where = terms.sizes, f"layer {terms.layer}, {terms.direction}"
        key = (terms.layer, terms.direction, slot)
        with wire.transport.ledger.phase("pack"):
            self._send = wire.memory.buffer(sum(self._sizes[0]), *key, "send")
            self._received = wire.memory.buffer(sum(self._sizes[1]), *key, "recv")
            wire.transport.settle(self._send)
        self._done, self._left = 0, 0
        self._pieces = terms.pieces
        self._pending: Pending | None = None
        if self._pieces is not None:
            incoming = self._pieces.halo if terms.direction == FORWARD else self._pieces.sent
            parts = [piece.times(terms.row_bytes) for piece in incoming]
            self._pending = wire.transport.open(self._send, self._received, parts, self._where)

    def add(self, rows: Tensor, stop: int) -> None:
        """The first ``stop`` of ``rows`` ``[boundary, k]`` are computed: send what is complete."""
        pieces = self._pieces
        if pieces is None:
            return
        ready = pieces.ready[sum(cut < stop for cut in pieces.cuts)]
        leaving = pieces.sent[self._left : ready]
        with self._wire.transport.ledger.phase("pack"):
            self._encode_rows(rows, slice(self._done, stop), leaving)
        self._dispatch(leaving)
        self._done, self._left = stop, ready

    def add_piece(self, rows: Tensor, piece: Piece) -> None:
        """These of the halo's gradients ``rows`` ``[h, k]`` are computed: send them."""
        part = slice(piece.start, piece.stop)
        with self._wire.transport.ledger.phase("pack"):
            self._encode_places(rows[part], self._wire.halo_ids[part], None, piece)
        self._dispatch([piece])

    @property
    def pieces_back(self) -> tuple[Piece, ...]:
        """The pieces of the halo's gradients; none where they leave as a whole."""
        return () if self._pieces is None else self._pieces.halo

    def close(self, rows: Tensor) -> Flight:
        """All ``rows`` are computed."""
        wire = self._wire
        if self._pending is None:
            with wire.transport.ledger.phase("pack"):
                self._encode(rows)
            self._pending = wire.transport.all_to_all(
                self._send, self._sizes[0], self._received, self._sizes[1], self._where
            )
        wire.transport.ledger.sent(self._send.numel(), self.terms.layer, self.terms.direction)
        return Flight(self._pending, self.terms)

    def _dispatch(self, pieces: tuple[Piece, ...] | list[Piece]) -> None:
        assert self._pending is not None
        self._wire.transport.dispatch(self._pending, [piece.times(self.terms.row_bytes) for piece in pieces])

    def _encode(self, rows: Tensor) -> None:
        """The whole message."""
        terms, lists = self.terms, self.terms.lists
        if terms.direction != FORWARD:
            terms.codec.encode(rows, self._source(self._wire.halo_ids, lists.places, None), self._send)
        elif terms.delta:
            self._encode_delta(rows, slice(0, rows.shape[0]))
            self._take(lists.index, self._send)
        else:
            terms.codec.encode(rows, self._source(self._wire.boundary_ids, lists.index, lists.targets), self._send)

    def _encode_rows(self, rows: Tensor, new: slice, leaving: tuple[Piece, ...]) -> None:
        """The rows ``new``, and of what is gathered by place, the pieces that leave."""
        terms, ids = self.terms, self._wire.boundary_ids
        if terms.delta:
            self._encode_delta(rows, new)
            for piece in leaving:
                self._take(terms.lists.index[piece.start : piece.stop], self._bytes(piece))
        elif not isinstance(terms.codec, Packed):
            for piece in leaving:
                self._encode_places(rows, ids, terms.lists.index[piece.start : piece.stop], piece)
        else:
            # Every row is quantised once, and written to its places with all peers.
            targets = row_range(terms.lists.targets, new.start, new.stop)
            terms.codec.encode(rows[new], self._source(ids[new], None, targets), self._send)

    def _encode_places(self, rows: Tensor, ids: Tensor, index: Tensor | None, piece: Piece) -> None:
        self.terms.codec.encode(rows, self._source(ids, index, None), self._bytes(piece))

    def _encode_delta(self, rows: Tensor, new: slice) -> None:
        """Pack ``Q(h - g m)`` and take the same step as the receivers: ``m <- g m + a Q(h - g m)``."""
        terms, memory, decay = self.terms, self._wire.memory, self._wire.decay
        kept = memory.matrix(f"delta.send.{terms.layer}", self._wire.boundary_ids.numel(), terms.width)[new]
        packed = self._packed()[new]
        # Two fresh matrices of this size would cost ten times the subtraction, in page faults.
        change = torch.sub(rows[new], kept, alpha=decay, out=empty(*kept.shape))
        terms.codec.encode(change, self._source(self._wire.boundary_ids[new], None, None), packed.view(-1))
        change = terms.codec.decode(packed.view(-1), terms.sent_columns)
        apply_delta(kept, change, terms.columns, decay, self._wire.gain)

    def _packed(self) -> Tensor:
        size, count = self.terms.row_bytes, self._wire.boundary_ids.numel()
        return self._wire.memory.buffer(size * count, "delta", self.terms.layer).view(-1, size)

    def _take(self, index: Tensor, out: Tensor) -> None:
        take_rows(self._packed(), index, out=out.view(-1, self.terms.row_bytes))

    def _bytes(self, piece: Piece) -> Tensor:
        part = piece.times(self.terms.row_bytes)
        return self._send[part.start : part.stop]

    def _source(self, ids: Tensor, index: Tensor | None, targets: Csr | None) -> Source:
        return Source(ids, index, targets, self.terms.columns, self.terms.stream)


def apply_delta(kept: Tensor, values: Tensor, columns: Tensor | None, decay: float, gain: float) -> None:
    """``m <- g m + a values``, in roundings that are the same on every machine; columns not sent stay."""
    if gain != 1:
        values = torch.mul(values, gain, out=empty(*values.shape))
    if columns is None:
        kept.mul_(decay).add_(values)
    else:
        kept[:, columns] = (kept[:, columns] * decay).add_(values)
