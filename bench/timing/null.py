"""The null transport: every message arrives at once and nothing is sent, so that only the work is left."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from halowire.wire import Envelope, Pending, Piece, Transport


class NullTransport(Transport):
    """A transport whose messages hold zeros and whose reductions return this worker's own numbers.

    Encoding, decoding and counting stay as they are: what an epoch takes on it is what no network can beat. While it is
    ``live`` it is a transport like any other, for preparations in which workers have to learn of each other.
    """

    def __init__(self, live: bool = False) -> None:
        super().__init__()
        self.live = live
        self._blank: set[tuple[int, int]] = set()

    def open(
        self,
        send: Tensor,
        received: Tensor,
        incoming: Sequence[Piece],
        where: str,
        tag: int | None = None,
        envelope: Envelope | None = None,
    ) -> Pending:
        """Done already; a buffer is blanked when it is first seen, since what lies in it may not be a number."""
        if self.live:
            return super().open(send, received, incoming, where, tag, envelope)
        key = (received.data_ptr(), received.numel())
        if key not in self._blank:
            received.zero_()
            self._blank.add(key)
        return Pending((), received, send, where)

    def dispatch(self, pending: Pending, pieces: Sequence[Piece]) -> None:
        """Nothing leaves, unless it is live."""
        if self.live:
            super().dispatch(pending, pieces)

    def start_reduce(self, tensor: Tensor, where: str, account: str | None = None) -> Pending:
        """The tensor as it is, at once."""
        return super().start_reduce(tensor, where, account) if self.live else Pending((), tensor, tensor, where)

    def broadcast(self, tensor: Tensor, where: str, account: str | None = None) -> Tensor:
        """The tensor as it is: both workers draw the same weights from the seed."""
        return super().broadcast(tensor, where, account) if self.live else tensor
