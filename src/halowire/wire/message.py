"""A message: rows under way, from encoding at the sender to adding up at the receiver.

The route of a message says which rows go where, its terms how they travel; the policy sets the terms in every epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from halowire.kernels import Csr, row_range, take_rows
from halowire.wire.codec import Codec, Packed, Source, Uniform
from halowire.wire.header import Envelope, Header, headers_of, kind_of, with_headers
from halowire.wire.hop import Hop
from halowire.wire.memory import Memory, add_columns
from halowire.wire.policy import BACKWARD
from halowire.wire.route import Piece, Route
from halowire.wire.terms import Terms
from halowire.wire.transport import Pending, Transport


@dataclass(frozen=True, eq=False)
class Wire:
    """What all messages of one exchange share.

    Attributes:
        transport: carries the bytes and keeps the ledger.
        memory: the buffers, and the matrices that are kept between epochs.
        label: the text before the direction in the ledger.
        account: the account that books training messages; None: the one that is open.
        envelopes: the memory of the headers.
    """

    transport: Transport
    memory: Memory
    label: str = ""
    account: str | None = None
    envelopes: dict[tuple[object, ...], Envelope] = field(default_factory=dict)

    def envelope(self, *key: object) -> Envelope:
        """An envelope; the same ``key`` gives the same memory."""
        if key not in self.envelopes:
            self.envelopes[key] = Envelope(self.transport.size)
        return self.envelopes[key]

    def packing(self) -> AbstractContextManager[None]:
        """Book the time spent inside the block as encoding and decoding."""
        return self.transport.ledger.phase("pack")


class Message:
    """Rows under way; call ``open``, then ``launch`` or ``expect``, then ``wait``, then ``rows`` or ``write``.

    Where a message can be cut, its pieces leave as soon as their rows are computed: on the way out :meth:`add` says how
    many rows are computed, on the way back :meth:`add_piece` says which piece is. A message that cannot be cut (sampled
    rows, graded bits, GPU memory) is encoded and sent by :meth:`launch`.
    """

    def __init__(
        self, wire: Wire, route: Route, terms: Terms, where: str, tag: int | None = None, kept: Tensor | None = None
    ) -> None:
        """``where`` names the message if it is late; ``kept`` ``[n, width]`` is the sender's memory of delta coding."""
        self.route = route
        self.terms = terms
        self._wire = wire
        self._where = where
        self._tag = tag
        self._kept = kept
        self._sent_bytes = terms.codec.sizes(route.sent, terms.sent_columns)
        self._expected_bytes = terms.decoder.sizes(route.received, terms.sent_columns)
        # With graded bits the rows of a piece do not lie together in the message, so it is not cut.
        self._pieces = route.pieces if isinstance(terms.codec, Uniform) else None
        self._pending: Pending | None = None
        self._send: Tensor
        self._received: Tensor
        self._envelope: Envelope | None = None
        self._in_place = False
        self._key: tuple[object, ...] = ()
        self._done = 0
        self._left = 0

    @staticmethod
    def restored(wire: Wire, route: Route, terms: Terms, data: Tensor) -> Message:
        """Make a message that arrived before a run was interrupted again, from its bytes ``data``."""
        message = Message(wire, replace(route, hand_on=None), terms, "restored")
        expected = sum(message._expected_bytes) if route.hand_on is None else route.size * terms.row_bytes
        if data.dtype != torch.uint8 or data.shape != (expected,):
            given = f"{data.dtype} {list(data.shape)}"
            raise ValueError(f"a message is {given}, expected torch.uint8 [{expected}]")
        message._received = data
        message._pending = Pending((), data, data, "restored")
        return message

    @property
    def place(self) -> tuple[int, str]:
        """Where the ledger books the message: the layer, and the name of the direction."""
        return self.terms.layer, self._wire.label + self.terms.direction

    def open(self, *key: object, send: Tensor | None = None, received: Tensor | None = None) -> Message:
        """Provide memory for the bytes, and expect the pieces that arrive; returns the message itself.

        ``key`` tells apart messages of an exchange that are under way together. Rows that travel unchanged may leave
        from the matrix ``send`` and arrive in ``received``, both contiguous, without a copy.
        """
        transport = self._wire.transport
        self._key = key
        self._in_place = send is not None or received is not None
        with nullcontext() if self._in_place else self._wire.packing():
            self._send = self._room(send, sum(self._sent_bytes), *key, "send")
            expected = sum(self._expected_bytes)
            # Behind the rows that come from their owners is room for those that workers of this machine hand on.
            room = expected if self.route.hand_on is None else self.route.size * self.terms.row_bytes
            self._received = self._room(received, room, *key, "recv")[:expected]
            transport.settle(self._send)
        if transport.size > 1:
            self._envelope = self._wire.envelope(*key)
            self._envelope.sent = self._headers(self.terms.codec, self.route.sent, self._sent_bytes)
            self._envelope.expected = self._headers(self.terms.decoder, self.route.received, self._expected_bytes)
        if self._pieces is not None:
            arriving = self._in_bytes(self._pieces.arriving)
            place = self._where, self._tag, self._envelope
            self._pending = transport.open(self._send, self._received, arriving, *place)
        return self

    def add(self, rows: Tensor, stop: int) -> None:
        """Send the pieces that are complete, now that the first ``stop`` of ``rows`` ``[n, width]`` are computed."""
        if self._pieces is None:
            return
        ready = self._pieces.ready[sum(cut < stop for cut in self._pieces.cuts)]
        self._load(rows, slice(self._done, stop), self._pieces.leaving[self._left : ready])
        self._done = stop
        self._left = ready

    def add_piece(self, rows: Tensor, piece: Piece) -> None:
        """Send ``piece``, now that its rows among ``rows`` ``[n, width]`` are computed."""
        self._load(rows, piece.at, [piece])

    @property
    def pieces_back(self) -> tuple[Piece, ...]:
        """The pieces for :meth:`add_piece`; none where the message leaves as a whole."""
        return () if self._pieces is None else self._pieces.leaving

    def launch(self, rows: Tensor) -> None:
        """Send what has not left yet, now that all ``rows`` ``[n, width]`` are computed, and book the bytes."""
        if self._pending is None:
            if not self._in_place:
                with self._wire.packing():
                    self._encode(rows, slice(0, len(rows)), [Piece(0, 0, 0, sum(self.route.sent))])
            self.expect()
        transport, account = self._wire.transport, self._wire.account
        with nullcontext() if account is None or self.terms.epoch < 0 else transport.ledger.account(account):
            transport.count(with_headers(self._sent_bytes), *self.place)

    def expect(self) -> None:
        """Exchange the bytes as they are now; a worker that only receives calls this instead of :meth:`launch`."""
        self._pending = self._wire.transport.all_to_all(
            self._send, self._sent_bytes, self._received, self._expected_bytes, self._where, self._tag, self._envelope
        )

    def wait(self) -> Tensor:
        """Wait until the message has arrived; returns its bytes."""
        assert self._pending is not None
        pending, hand_on = self._pending, self.route.hand_on
        with self._wire.transport.ledger.waiting(*self.place):
            self._wire.transport.wait(pending)
        if hand_on is not None and self._received is pending.received:
            size = self.terms.row_bytes
            data = self._room(None, self.route.size * size, *self._key, "recv")
            self._received = self._room(None, self.route.size * size, *self._key, "halo")
            hand_on.pass_on(data, size, self._received, self.hop())
        return self._received

    def hop(self) -> Hop:
        """A message of this one's place and codec to workers of the same machine."""
        terms, wire = self.terms, self._wire
        envelope = wire.envelope("hand on", *self.place)
        return Hop(wire.transport, wire.memory, self.place, terms.epoch, self._kind(terms.codec), self._where, envelope)

    def settle(self) -> None:
        """Wait until the message has left, so that the memory it leaves from may change."""
        with self._wire.transport.ledger.waiting(*self.place):
            self._wire.transport.settle(self._send)

    def rows(self, kept: Tensor | None = None, new: bool = True) -> Tensor:
        """The rows ``[size, width]`` of a message that has arrived, with zeros where nothing travelled.

        They may share the message's memory. With delta coding ``kept`` is the receiver's memory, which takes a step if
        the message is ``new`` to it.
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
        make = torch.empty if places is None else torch.zeros
        full = make(self.route.size, terms.width, device=self._received.device)
        self.write(full)
        return full

    def write(self, out: Tensor, kept: Tensor | None = None) -> None:
        """Write the rows of a message that has arrived to their places in ``out`` ``[size, width]``.

        Columns that did not travel become zero, rows that did not travel stay. For ``kept`` see :meth:`rows`.
        """
        columns, places = self.terms.columns, self.route.places
        at = slice(None) if places is None else places
        if self.terms.delta is not None:
            out.copy_(self.rows(kept))
        elif columns is None:
            out[at] = self._values()
        else:
            out[at] = 0
            out[at if places is None else places[:, None], columns] = self._values()

    def add_up(self, matrix: Csr, out: Tensor, rows: Tensor | None = None) -> None:
        """``out += matrix @ rows`` for a message that has arrived; without ``rows``, bytes are decoded in registers."""
        terms, data = self.terms, self._received
        with self._wire.packing():
            if rows is not None:
                matrix.matmul(rows, out=out, accumulate=True)
                return
            places = self.route.places
            if places is not None and places.device.type != "cpu":
                # To choose the edges from rows that travelled, the host would wait; rows that did not travel are zero.
                matrix.matmul(self.rows(), out=out, accumulate=True)
                return
            used = (matrix if places is None else matrix.select_columns(places)).scaled(terms.factor)
            if terms.columns is None:
                terms.decoder.aggregate(used, data, terms.width, out)
            else:
                part = torch.zeros(out.shape[0], terms.sent_columns, device=out.device)
                terms.decoder.aggregate(used, data, terms.sent_columns, part)
                add_columns(out, terms.columns, part)

    def seen(self, rows: Tensor, index: Tensor, codec: Uniform) -> Tensor:
        """The rows ``index`` of ``rows`` as the receiver decodes them, encoded again with the same random numbers."""
        terms, route = self.terms, self.route
        if terms.delta is not None:
            assert self._kept is not None
            change = codec.decode(self._changes()[index].view(-1), terms.sent_columns)
            return terms.delta.rows(self._kept[index], change, terms.columns)
        wanted = rows[index]
        data = torch.empty(len(wanted) * codec.row_bytes(terms.sent_columns), dtype=torch.uint8, device=rows.device)
        codec.encode(wanted, self._source(route.ids[index]), data)
        seen = torch.zeros_like(wanted)
        # The factor for sampled rows makes up for rows that did not travel: it is no error of the rows that did.
        add_columns(seen, terms.columns, codec.decode(data, terms.sent_columns) * (terms.factor * route.share))
        return seen

    def _headers(self, codec: Codec, rows: Sequence[int], sizes: Sequence[int]) -> dict[int, Header]:
        """The header of the rows of every peer that sends or gets bytes, coded by ``codec``."""
        place = self._wire.transport.run, self.terms.epoch, self.terms.layer, self._kind(codec)
        return headers_of(place, rows, sizes)

    def _kind(self, codec: Codec) -> int:
        """What the headers of rows that are coded by ``codec`` say of them."""
        back, between_stages = self.terms.direction == BACKWARD, bool(self._wire.label)
        return kind_of(codec.wire_name, back, between_stages, self.terms.delta is not None)

    def _values(self) -> Tensor:
        """The values that travelled, ``[m, sent columns]``, times the factor of the terms."""
        values = self.terms.decoder.decode(self._received, self.terms.sent_columns)
        return values if self.terms.factor == 1 else values * self.terms.factor

    def _load(self, rows: Tensor, new: slice, leaving: Sequence[Piece]) -> None:
        """Encode the rows ``new``, and send the pieces that are ``leaving``."""
        assert self._pending is not None
        with self._wire.packing():
            self._encode(rows, new, leaving)
        self._wire.transport.dispatch(self._pending, self._in_bytes(leaving))

    def _encode(self, rows: Tensor, new: slice, leaving: Sequence[Piece]) -> None:
        """Write the bytes of the pieces ``leaving``; ``new`` are the rows that were computed since the last call."""
        terms, route = self.terms, self.route
        if terms.delta is not None:
            self._encode_changes(rows, new)
            if route.index is not None:
                for piece in leaving:
                    out = self._bytes(piece).view(-1, terms.row_bytes)
                    take_rows(self._changes(), route.index[piece.at], out=out)
        elif isinstance(terms.codec, Packed) and route.targets is not None:
            # Every row is quantised once, and written to its place in the message of every peer that gets it.
            targets = route.targets if self._pieces is None else row_range(route.targets, new.start, new.stop)
            terms.codec.encode(rows[new], self._source(route.ids[new], targets=targets), self._send)
        elif route.index is None:
            for piece in leaving:
                terms.codec.encode(rows[piece.at], self._source(route.ids[piece.at]), self._bytes(piece))
        else:
            for piece in leaving:
                terms.codec.encode(rows, self._source(route.ids, route.index[piece.at]), self._bytes(piece))

    def _encode_changes(self, rows: Tensor, new: slice) -> None:
        """Encode the changes of the rows ``new``, and take the same step as their receivers."""
        terms = self.terms
        assert terms.delta is not None and self._kept is not None
        kept, packed = self._kept[new], self._changes()[new].view(-1)
        change = terms.delta.change(rows[new], kept)
        terms.codec.encode(change, self._source(self.route.ids[new]), packed)
        terms.delta.step(kept, terms.codec.decode(packed, terms.sent_columns), terms.columns)

    def _changes(self) -> Tensor:
        """The packed change of every row, uint8 ``[n, row_bytes]``: the send buffer where every row travels once."""
        size, count = self.terms.row_bytes, self.route.ids.numel()
        if self.route.index is None:
            return self._send.view(-1, size)
        return self._wire.memory.buffer(size * count, "delta", self.terms.layer).view(-1, size)

    def _in_bytes(self, pieces: Sequence[Piece]) -> list[Piece]:
        row_bytes = self.terms.row_bytes
        return [piece.times(row_bytes) for piece in pieces]

    def _bytes(self, piece: Piece) -> Tensor:
        """The bytes of ``piece`` in the send buffer."""
        return self._send if self._pieces is None else self._send[piece.times(self.terms.row_bytes).at]

    def _room(self, matrix: Tensor | None, nbytes: int, *key: object) -> Tensor:
        """The bytes of ``matrix``; without a matrix, a buffer of the exchange."""
        return self._wire.memory.buffer(nbytes, *key) if matrix is None else matrix.view(-1).view(torch.uint8)

    def _source(self, ids: Tensor, index: Tensor | None = None, targets: Csr | None = None) -> Source:
        return Source(ids, index, targets, self.terms.columns, self.terms.stream)


@dataclass(frozen=True, eq=False)
class Arrival:
    """Rows that have arrived, to be added to one range of rows after another.

    ``rows`` ``[size, width]`` are given where those of ``message`` had to be written to memory, or where rows need no
    message because they are here already. With neither, nothing is added.
    """

    message: Message | None
    rows: Tensor | None = None

    @staticmethod
    def of(rows: Tensor) -> Arrival:
        """Rows ``[size, width]`` that are here already."""
        return Arrival(None, rows)

    def add(self, matrix: Csr, out: Tensor) -> None:
        """``out += matrix @ rows``, ``[r, width]`` for ``matrix`` ``[r, size]``.

        Where rows are sampled, only the edges from rows that travelled are summed.
        """
        if self.message is not None:
            self.message.add_up(matrix, out, self.rows)
        elif self.rows is not None:
            matrix.matmul(self.rows, out=out, accumulate=True)
