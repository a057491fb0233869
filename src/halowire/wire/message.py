"""A message: rows under way by a route and under terms, from encoding them to adding them up at the other end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.kernels import Csr, row_range, take_rows
from halowire.wire.codec import Packed, Source, Uniform
from halowire.wire.memory import Memory, add_columns
from halowire.wire.route import Piece, Route
from halowire.wire.terms import Terms
from halowire.wire.transport import Pending, Transport


@dataclass(frozen=True, eq=False)
class Wire:
    """What all messages of one exchange share.

    Attributes:
        transport: carries their bytes and keeps the ledger.
        memory: their buffers, and what is remembered between epochs.
        label: what stands before the direction in the ledger.
        account: the account that books training messages; None: the one that is open.
    """

    transport: Transport
    memory: Memory
    label: str = ""
    account: str | None = None


class Message:
    """Rows under way; ``open`` first, then ``launch`` or ``expect``, then ``wait``, then ``rows`` or ``write``.

    Where a message can be cut, its pieces leave as soon as their rows are computed: on the way out :meth:`add` says how
    many of the rows are, on the way back :meth:`add_piece` says which piece is. What cannot be cut (sampled rows,
    graded bits, graphics memory) is coded and sent by :meth:`launch`.
    """

    def __init__(
        self, wire: Wire, route: Route, terms: Terms, where: str, tag: int | None = None, kept: Tensor | None = None
    ) -> None:
        """``where`` tells a worker what it waits for in vain; ``kept`` ``[n, width]`` is the sender's delta memory."""
        self.route = route
        self.terms = terms
        self._wire = wire
        self._where = where
        self._tag = tag
        self._kept = kept
        self._sizes = terms.sizes(route)
        self._pieces = terms.pieces(route)
        self._pending: Pending | None = None
        self._send: Tensor
        self._received: Tensor
        self._in_place = False
        self._done = 0
        self._left = 0

    @staticmethod
    def restored(wire: Wire, route: Route, terms: Terms, data: Tensor) -> Message:
        """A message that arrived before a run was interrupted, from its bytes."""
        message = Message(wire, route, terms, "restored")
        message._received = data
        message._pending = Pending((), data, data, "restored")
        return message

    @property
    def place(self) -> tuple[int, str]:
        """Where the ledger books it: the layer, and the name of the direction."""
        return self.terms.layer, self._wire.label + self.terms.direction

    def open(self, *key: object, send: Tensor | None = None, received: Tensor | None = None) -> Message:
        """Provide the memory of the bytes, and expect the pieces that arrive; returns the message itself.

        ``key`` tells apart messages of an exchange that are under way together. Rows that travel as they lie may leave
        from the matrix ``send`` and arrive in ``received``, both contiguous, without a copy.
        """
        transport, memory = self._wire.transport, self._wire.memory
        self._in_place = send is not None or received is not None
        with nullcontext() if self._in_place else transport.ledger.phase("pack"):
            self._send = memory.buffer(sum(self._sizes[0]), *key, "send") if send is None else _bytes_of(send)
            into = memory.buffer(sum(self._sizes[1]), *key, "recv") if received is None else _bytes_of(received)
            self._received = into
            transport.settle(self._send)
        if self._pieces is not None:
            arriving = self._in_bytes(self._pieces.arriving)
            self._pending = transport.open(self._send, self._received, arriving, self._where, self._tag)
        return self

    def add(self, rows: Tensor, stop: int) -> None:
        """The first ``stop`` of ``rows`` ``[n, width]`` are computed: send the pieces that are complete."""
        pieces = self._pieces
        if pieces is None:
            return
        ready = pieces.ready[sum(cut < stop for cut in pieces.cuts)]
        leaving = pieces.leaving[self._left : ready]
        with self._wire.transport.ledger.phase("pack"):
            self._encode_rows(rows, slice(self._done, stop), leaving)
        self._dispatch(leaving)
        self._done = stop
        self._left = ready

    def add_piece(self, rows: Tensor, piece: Piece) -> None:
        """The rows of ``piece`` among ``rows`` ``[n, width]`` are computed: send them."""
        part = slice(piece.start, piece.stop)
        with self._wire.transport.ledger.phase("pack"):
            self._encode_piece(rows[part], self.route.ids[part], None, piece)
        self._dispatch([piece])

    @property
    def pieces_back(self) -> tuple[Piece, ...]:
        """The pieces for :meth:`add_piece`; none where the message leaves as a whole."""
        return () if self._pieces is None else self._pieces.leaving

    def launch(self, rows: Tensor) -> None:
        """All ``rows`` ``[n, width]`` are computed: send what has not left yet, and book the bytes."""
        if self._pending is None:
            if not self._in_place:
                with self._wire.transport.ledger.phase("pack"):
                    self._encode(rows)
            self.expect()
        ledger, account = self._wire.transport.ledger, self._wire.account
        with nullcontext() if account is None or self.terms.epoch < 0 else ledger.account(account):
            ledger.sent(self._send.numel(), *self.place)

    def expect(self) -> None:
        """Exchange the bytes as they are now: for a message to which this worker adds nothing."""
        sent, received = self._sizes
        self._pending = self._wire.transport.all_to_all(
            self._send, sent, self._received, received, self._where, self._tag
        )

    def wait(self) -> Tensor:
        """Wait until the message is here; its bytes."""
        assert self._pending is not None
        with self._wire.transport.ledger.waiting(*self.place):
            return self._wire.transport.wait(self._pending)

    def settle(self) -> None:
        """Wait until the message has left, so that the memory it leaves from may change."""
        with self._wire.transport.ledger.waiting(*self.place):
            self._wire.transport.settle(self._send)

    def rows(self, kept: Tensor | None = None, new: bool = True) -> Tensor:
        """The rows ``[size, width]`` of a message that is here, zeros where nothing travelled; may share its memory.

        With delta coding ``kept`` is the receiver's memory, which takes a step if the message is ``new`` to it.
        """
        terms, places = self.terms, self.route.places
        if terms.delta is not None:
            assert kept is not None
            values = terms.decoder.decode(self._received, terms.sent_columns)
            if new:
                terms.delta.step(kept, values, terms.columns)
            return terms.delta.rows(kept, values, terms.columns)
        if places is None and terms.columns is None:
            return self._values()
        full = torch.zeros(self.route.size, terms.width, device=self._received.device)
        self._put(full)
        return full

    def write(self, out: Tensor, kept: Tensor | None = None) -> None:
        """Put the rows of a message that is here into their places in ``out`` ``[size, width]``; see :meth:`rows`.

        Columns that did not travel become zero, rows that did not travel stay.
        """
        if self.terms.delta is not None:
            out.copy_(self.rows(kept))
            return
        if self.terms.columns is not None:
            out[slice(None) if self.route.places is None else self.route.places] = 0
        self._put(out)

    def add_up(self, matrix: Csr, out: Tensor) -> None:
        """``out += matrix @ rows`` for a message that is here, its rows decoded in registers; see :class:`Arrival`."""
        terms, data = self.terms, self._received
        used = self.route.arrived(matrix).scaled(terms.factor)
        if terms.columns is None:
            terms.decoder.aggregate(used, data, terms.width, out)
        else:
            part = torch.zeros(out.shape[0], terms.sent_columns, device=out.device)
            terms.decoder.aggregate(used, data, terms.sent_columns, part)
            add_columns(out, terms.columns, part)

    def seen(self, rows: Tensor, index: Tensor, codec: Uniform) -> Tensor:
        """What the receiver makes of the rows ``index`` of ``rows``; they are coded again with the same numbers."""
        terms, route = self.terms, self.route
        if terms.delta is not None:
            assert self._kept is not None
            change = codec.decode(self._changes()[index].view(-1), terms.sent_columns)
            return terms.delta.rows(self._kept[index], change, terms.columns)
        wanted = rows[index]
        data = torch.empty(len(wanted) * codec.row_bytes(terms.sent_columns), dtype=torch.uint8, device=rows.device)
        codec.encode(wanted, self._source(route.ids[index], None, None), data)
        seen = torch.zeros_like(wanted)
        # The factor for sampled rows makes up for rows that did not travel: it is no error of those that did.
        add_columns(seen, terms.columns, codec.decode(data, terms.sent_columns) * (terms.factor * route.share))
        return seen

    def _values(self) -> Tensor:
        """The values that travelled, ``[m, sent columns]``, times the factor on arrival."""
        values = self.terms.decoder.decode(self._received, self.terms.sent_columns)
        return values if self.terms.factor == 1 else values * self.terms.factor

    def _put(self, out: Tensor) -> None:
        """The values into their rows and columns of ``out``."""
        columns, places = self.terms.columns, self.route.places
        if columns is None:
            out[slice(None) if places is None else places] = self._values()
        else:
            out[slice(None) if places is None else places[:, None], columns] = self._values()

    def _dispatch(self, pieces: Sequence[Piece]) -> None:
        assert self._pending is not None
        self._wire.transport.dispatch(self._pending, self._in_bytes(pieces))

    def _in_bytes(self, pieces: Sequence[Piece]) -> list[Piece]:
        row_bytes = self.terms.row_bytes
        return [piece.times(row_bytes) for piece in pieces]

    def _encode(self, rows: Tensor) -> None:
        """Encode the whole message."""
        route = self.route
        if self.terms.delta is None:
            self.terms.codec.encode(rows, self._source(route.ids, route.index, route.targets), self._send)
            return
        self._encode_changes(rows, slice(0, rows.shape[0]))
        if route.index is not None:
            self._take(route.index, self._send)

    def _encode_rows(self, rows: Tensor, new: slice, leaving: Sequence[Piece]) -> None:
        """Encode the rows ``new``, and of what is gathered by place, the pieces that leave."""
        terms, route = self.terms, self.route
        assert route.index is not None and route.targets is not None
        if terms.delta is not None:
            self._encode_changes(rows, new)
            for piece in leaving:
                self._take(route.index[piece.start : piece.stop], self._bytes(piece))
        elif not isinstance(terms.codec, Packed):
            for piece in leaving:
                self._encode_piece(rows, route.ids, route.index[piece.start : piece.stop], piece)
        else:
            # Every row is quantised once, and written to its places with all peers.
            targets = row_range(route.targets, new.start, new.stop)
            terms.codec.encode(rows[new], self._source(route.ids[new], None, targets), self._send)

    def _encode_piece(self, rows: Tensor, ids: Tensor, index: Tensor | None, piece: Piece) -> None:
        self.terms.codec.encode(rows, self._source(ids, index, None), self._bytes(piece))

    def _encode_changes(self, rows: Tensor, new: slice) -> None:
        """Encode the changes of the rows ``new``, and take the same step as their receivers."""
        terms = self.terms
        assert terms.delta is not None and self._kept is not None
        kept, packed = self._kept[new], self._changes()[new].view(-1)
        change = terms.delta.change(rows[new], kept)
        terms.codec.encode(change, self._source(self.route.ids[new], None, None), packed)
        terms.delta.step(kept, terms.codec.decode(packed, terms.sent_columns), terms.columns)

    def _changes(self) -> Tensor:
        """The packed change of every row, uint8 ``[n, row_bytes]``; the message itself where all rows travel once."""
        size, count = self.terms.row_bytes, self.route.ids.numel()
        if self.route.index is None:
            return self._send.view(-1, size)
        return self._wire.memory.buffer(size * count, "delta", self.terms.layer).view(-1, size)

    def _take(self, index: Tensor, out: Tensor) -> None:
        take_rows(self._changes(), index, out=out.view(-1, self.terms.row_bytes))

    def _bytes(self, piece: Piece) -> Tensor:
        part = piece.times(self.terms.row_bytes)
        return self._send[part.start : part.stop]

    def _source(self, ids: Tensor, index: Tensor | None, targets: Csr | None) -> Source:
        return Source(ids, index, targets, self.terms.columns, self.terms.stream)


@dataclass(frozen=True, eq=False)
class Arrival:
    """A message that is here, to be added to one range of rows after another.

    ``rows`` ``[size, width]`` are given where they had to be written to memory. Without a message nothing is added.
    """

    wire: Wire
    message: Message | None = None
    rows: Tensor | None = None

    def add(self, matrix: Csr, out: Tensor) -> None:
        """``out += matrix @ rows``, ``[r, width]`` for ``matrix`` ``[r, size]``.

        Of sampled rows, only the edges from those that travelled are summed.
        """
        if self.message is None:
            return
        with self.wire.transport.ledger.phase("pack"):
            if self.rows is not None:
                matrix.matmul(self.rows, out=out, accumulate=True)
            else:
                self.message.add_up(matrix, out)


def _bytes_of(matrix: Tensor) -> Tensor:
    return matrix.view(-1).view(torch.uint8)
