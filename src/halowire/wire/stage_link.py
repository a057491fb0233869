"""Stage links: they carry the rows of a chunk from one stage to the next, and gradients back, in any code."""

from __future__ import annotations

from torch import Tensor

from halowire.events import STAGE
from halowire.wire.code_error import CodeError
from halowire.wire.memory import Memory
from halowire.wire.message import Message, Wire
from halowire.wire.policy import BACKWARD, Policy
from halowire.wire.route import Route
from halowire.wire.terms import Draw, Terms
from halowire.wire.transport import TAGS, TAGS_EACH, Transport


class StageLink:
    """One worker's end of the connection to the stage before or after it, for one kind of rows ``[n, width]``.

    float32 rows travel straight from the sender's matrix to the receiver's. Other codes encode and decode them, and
    with delta coding both ends keep the reconstructed rows. Every row travels in every epoch: a stage cannot go on
    without its input.
    """

    def __init__(self, line: Transport, peer: int, layer: int, kind: int, ids: Tensor, policy: Policy) -> None:
        """``peer``: the other stage; ``layer``: the layer whose input the rows are; ``kind``: 1 for initial rows.

        ``ids`` are the original ids of the part's rows, on the device where the rows are.
        """
        self.memory = Memory(ids.device)
        self._wire = Wire(line, self.memory, "stage ", STAGE)
        self._error = CodeError(line.ledger)
        self._peer = peer
        self._layer = layer
        self._kind = kind
        self._ids = ids
        self._policy = policy
        self._incoming: dict[int, Message] = {}
        self._outgoing: list[Message] = []
        self._into: Tensor | None = None
        self._arrived: Message | None = None
        self._terms_of: dict[tuple[int, str, int], Terms] = {}

    def expect(self, number: int, at: slice, into: Tensor, direction: str, epoch: int | None) -> None:
        """Post the receive of the ``number``-th chunk, which fills the rows ``at`` of ``into``.

        All links between two stages post in one order: chunk after chunk, and within a chunk kind after kind, as the
        sender does. NCCL knows no tags, so the ``k``-th receive of a pair of workers meets its ``k``-th send.
        """
        self._into = into
        terms = self._terms(epoch, direction, into.shape[1])
        message = self._message(number, at, terms, sends=False)
        message.open(direction, number, received=into[at] if terms.plain else None).expect()
        self._incoming[number] = message

    def take(self, number: int) -> None:
        """Wait for the ``number``-th chunk; :meth:`unpack` then puts its rows in place."""
        self._arrived = self._incoming.pop(number)
        self._arrived.wait()

    def unpack(self, at: slice) -> None:
        """Decode the chunk that was taken last into the rows ``at``; float32 rows are there already."""
        assert self._into is not None and self._arrived is not None
        terms = self._arrived.terms
        if not terms.plain:
            with self._wire.packing():
                self._arrived.write(self._into[at], self._kept(terms, at))
        self._arrived = None

    def send(self, rows: Tensor, number: int, at: slice, direction: str, epoch: int | None) -> None:
        """Launch ``rows``, the rows ``at`` of the part; they must not change before :meth:`settle`."""
        terms = self._terms(epoch, direction, rows.shape[1])
        message = self._message(number, at, terms, sends=True)
        message.open(direction, number, send=rows if terms.plain else None).launch(rows)
        if number == 0:
            self._error.measure(message, rows)
        self._outgoing.append(message)

    def settle(self) -> None:
        """Wait until everything sent has left."""
        for message in self._outgoing:
            message.settle()
        self._outgoing.clear()

    def _message(self, number: int, at: slice, terms: Terms, *, sends: bool) -> Message:
        when = "evaluation" if terms.epoch < 0 else f"epoch {terms.epoch}"
        where = f"{when}, stage link into layer {self._layer}, {terms.direction}"
        tag = TAGS + TAGS_EACH * (4 * number + 2 * self._kind + (terms.direction == BACKWARD)) % TAGS
        route = Route.to_peer(self._ids[at], self._peer, self._wire.transport.size, sends=sends)
        return Message(self._wire, route, terms, where, tag, self._kept(terms, at) if sends else None)

    def _terms(self, epoch: int | None, direction: str, width: int) -> Terms:
        """The terms of an epoch and direction, which all chunks share."""
        if epoch is None:
            return Terms.exact(self._layer, direction, width)
        key = (epoch, direction, width)
        if key not in self._terms_of:
            self._terms_of = {old: terms for old, terms in self._terms_of.items() if old[0] == epoch}
            draw = Draw.stage(self._layer, direction, self._kind)
            self._terms_of[key] = Terms.of(self._policy, draw, epoch, width, delta=True, device=self._ids.device)
        return self._terms_of[key]

    def _kept(self, terms: Terms, at: slice) -> Tensor | None:
        """The rows ``at`` of the memory of delta coding."""
        if terms.delta is None:
            return None
        return self.memory.matrix(f"link.{self._layer}.{self._kind}", self._ids.numel(), terms.width)[at]
