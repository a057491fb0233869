"""Stage links: the rows of a chunk from one stage to the next, their gradients back, in any code."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from halowire.events import STAGE
from halowire.kernels import empty
from halowire.schedules.terms import MEASURE_EVERY, MEASURED_ROWS, RowTerms, relative_error
from halowire.wire import BACKWARD, Pending, Policy, Source, Transport
from halowire.wire.memory import Memory

STREAM = 300
"""First stream of the links' random numbers: rows and initial rows, forward and backward."""
TAGS = 1 << 20
"""First tag of the links' messages."""


class Link:
    """One worker's end of the wire to the stage before or after it, for one kind of rows ``[n, width]``.

    float32 rows travel from and to the matrices they are computed in. Otherwise the sender encodes them, and with delta
    coding both ends keep the reconstruction ``r(t) = g r(t-1) + Q(u(t) - g r(t-1))``. Every row travels, in every
    epoch: a stage without its input could not go on.
    """

    def __init__(self, line: Transport, peer: int, layer: int, kind: int, ids: Tensor, policy: Policy) -> None:
        """``peer``: the other stage; ``layer``: the exchange that the rows enter; ``kind``: 1 for initial rows."""
        self._line, self._peer, self._layer, self._kind = line, peer, layer, kind
        self._ids, self._policy = ids, policy
        self.memory = Memory(torch.device("cpu"))
        self._incoming: dict[int, Pending] = {}
        self._outgoing: list[tuple[str, Pending]] = []
        self._into: Tensor | None = None
        self._arrived: Tensor | None = None
        self._terms_of: dict[tuple[int | None, str, int], RowTerms] = {}

    def expect(self, places: Sequence[slice], into: Tensor, direction: str, epoch: int | None) -> None:
        """Post the receives of all chunks ``places``, in the order in which they will come, for ``into`` ``[n, k]``."""
        self._into = into
        terms = self._terms(epoch, direction, into.shape[1])
        for number, at in enumerate(places):
            if terms.plain:
                data = into[at]
            else:
                nbytes = terms.row_bytes * (at.stop - at.start)
                data = self.memory.buffer(nbytes, direction, "in", number)
            tag = self._tag(number, direction)
            self._incoming[number] = self._line.receive(data, self._peer, tag, self._where(direction, epoch))

    def take(self, number: int, direction: str) -> None:
        """Wait for the ``number``-th chunk; after :meth:`unpack` its rows are in their place."""
        pending = self._incoming.pop(number)
        with self._line.ledger.waiting(self._layer, f"stage {direction}"):
            self._arrived = self._line.wait(pending)

    def unpack(self, at: slice, direction: str, epoch: int | None) -> None:
        """Decode the chunk that was taken last, whose rows are ``at``; there is nothing to do for float32."""
        assert self._into is not None and self._arrived is not None
        terms = self._terms(epoch, direction, self._into.shape[1])
        if not terms.plain:
            with self._line.ledger.phase("pack"):
                self._decode(self._arrived, at, terms, self._into)
        self._arrived = None

    def send(self, rows: Tensor, number: int, at: slice, direction: str, epoch: int | None) -> None:
        """Launch ``rows``, those ``at`` of the part; they must not change before :meth:`settle`."""
        ledger = self._line.ledger
        terms = self._terms(epoch, direction, rows.shape[1])
        data = rows
        if not terms.plain:
            with ledger.phase("pack"):
                data = self._encode(rows, number, at, terms, direction, epoch)
        if epoch is None:
            ledger.sent(data.nbytes)
        else:
            with ledger.account(STAGE):
                ledger.sent(data.nbytes, self._layer, f"stage {direction}")
        tag = self._tag(number, direction)
        self._outgoing.append((direction, self._line.send(data, self._peer, tag, self._where(direction, epoch))))

    def settle(self) -> None:
        """Wait until everything sent has left."""
        for direction, pending in self._outgoing:
            with self._line.ledger.waiting(self._layer, f"stage {direction}"):
                self._line.wait(pending)
        self._outgoing.clear()

    def _encode(
        self, rows: Tensor, number: int, at: slice, terms: RowTerms, direction: str, epoch: int | None
    ) -> Tensor:
        nbytes = terms.row_bytes * rows.shape[0]
        data = self.memory.buffer(nbytes, direction, "out", number)
        source = Source(self._ids[at], None, None, terms.columns, terms.stream)
        wanted = rows
        if terms.delta:
            kept = self._reference(rows.shape[1])[at]
            wanted = torch.sub(rows, kept, alpha=self._decay, out=empty(*rows.shape))
        terms.codec.encode(wanted, source, data)
        measured = epoch is not None and epoch % MEASURE_EVERY == 0 and number == 0
        if terms.delta or measured:
            seen = torch.zeros(rows.shape) if not terms.delta else self._reference(rows.shape[1])[at]
            self._write(data, terms, seen)
            if terms.factor != 1:
                seen.mul_(terms.factor)
            if measured:
                self._measure(rows[:MEASURED_ROWS], seen[:MEASURED_ROWS], direction)
        return data

    def _decode(self, data: Tensor, at: slice, terms: RowTerms, into: Tensor) -> None:
        if terms.delta:
            kept = self._reference(into.shape[1])[at]
            self._write(data, terms, kept)
            into[at] = kept
        else:
            self._write(data, terms, into[at])
            if terms.factor != 1:
                into[at].mul_(terms.factor)

    def _write(self, data: Tensor, terms: RowTerms, out: Tensor) -> None:
        """Decode into ``out``, or with delta coding take the step ``out <- g out + change``."""
        values = terms.codec.decode(data, terms.sent_columns)
        if terms.delta and terms.columns is None:
            out.mul_(self._decay).add_(values)
        elif terms.delta:
            out[:, terms.columns] = (out[:, terms.columns] * self._decay).add_(values)
        elif terms.columns is None:
            out.copy_(values)
        else:
            out.zero_()
            out[:, terms.columns] = values

    def _measure(self, rows: Tensor, seen: Tensor, direction: str) -> None:
        if (error := relative_error(rows, seen)) is not None:
            self._line.ledger.error(self._layer, f"stage {direction}", error)

    def _terms(self, epoch: int | None, direction: str, width: int) -> RowTerms:
        key = (epoch, direction, width)
        if key not in self._terms_of:
            self._terms_of = {old: terms for old, terms in self._terms_of.items() if old[0] == epoch}
            self._terms_of[key] = self._agree(epoch, direction, width)
        return self._terms_of[key]

    def _agree(self, epoch: int | None, direction: str, width: int) -> RowTerms:
        if epoch is None:
            return RowTerms.exact(width)
        stream = STREAM + 2 * self._kind + (direction == BACKWARD)
        # A layer's halo rows draw their columns from the layer's number; links draw others.
        key = -1 - 2 * self._layer - self._kind
        return RowTerms.agree(self._policy, epoch, self._layer, direction, width, key=key, stream=stream, delta=True)

    def _reference(self, width: int) -> Tensor:
        return self.memory.matrix(f"link.{self._layer}.{self._kind}", self._ids.numel(), width)

    @property
    def _decay(self) -> float:
        return 1.0 if self._policy.decay is None else self._policy.decay

    def _tag(self, number: int, direction: str) -> int:
        return TAGS + 4 * number + 2 * self._kind + (direction == BACKWARD)

    def _where(self, direction: str, epoch: int | None) -> str:
        when = "evaluation" if epoch is None else f"epoch {epoch}"
        return f"{when}, stage link into layer {self._layer}, {direction}"
