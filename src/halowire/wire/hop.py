"""A hop: rows from worker to worker of one machine, on their way to or from another machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from halowire.wire.header import Envelope, headers_of, with_headers
from halowire.wire.memory import Memory
from halowire.wire.transport import Transport


@dataclass(frozen=True, eq=False)
class Hop:
    """A message between the workers of one machine.

    Attributes:
        transport: carries the bytes and books them.
        memory: keeps the buffer from which they leave.
        place: the layer and the direction in the ledger.
        epoch, kind: what the headers say, see `Header`.
        where: names the message if it is late.
        envelope: the memory of the headers.
    """

    transport: Transport
    memory: Memory
    place: tuple[int, str]
    epoch: int
    kind: int
    where: str
    envelope: Envelope

    def room(self, nbytes: int) -> Tensor:
        """The buffer from which the bytes leave; the previous message from it has left."""
        buffer = self.memory.buffer(nbytes, "hand on", *self.place)
        self.transport.settle(buffer)
        return buffer

    def swap(
        self, leaving: Tensor, sent: Sequence[int], arriving: Tensor, received: Sequence[int], row_bytes: int
    ) -> None:
        """Send ``sent[p]`` rows of ``leaving`` to every peer ``p``, and wait for ``received[p]`` rows from it."""
        sizes, expected = ([count * row_bytes for count in counts] for counts in (sent, received))
        says = self.transport.run, self.epoch, self.place[0], self.kind
        self.envelope.sent = headers_of(says, sent, sizes)
        self.envelope.expected = headers_of(says, received, expected)
        self.transport.count(with_headers(sizes))
        under_way = self.transport.all_to_all(
            leaving, sizes, arriving, expected, f"{self.where}, within the machine", envelope=self.envelope
        )
        with self.transport.ledger.waiting(*self.place):
            self.transport.wait(under_way)
