"""A transport for workers that are threads of one process, through shared memory: for rehearsals and tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from halowire.errors import LateError
from halowire.events import Ledger
from halowire.wire.deadline import Wait
from halowire.wire.header import Envelope, EnvelopeRing
from halowire.wire.machines import Machines
from halowire.wire.route import Piece
from halowire.wire.transport import Pending, Transport


class Hub:
    """Holds the messages that threads leave for each other; a thread that fails wakes all others."""

    def __init__(self, size: int, deadline: float = 60.0) -> None:
        self.size = size
        self.deadline = deadline
        self._messages: dict[tuple[Any, ...], list[Tensor]] = {}
        self._changed = threading.Condition()
        self._failed = False

    def put(self, key: tuple[Any, ...], value: Tensor) -> None:
        """Leave a copy of ``value``, to be taken after earlier messages of the same ``key``."""
        with self._changed:
            self._messages.setdefault(key, []).append(value.detach().clone())
            self._changed.notify_all()

    def take(self, key: tuple[Any, ...]) -> Tensor:
        """Wait for the first message of ``key``, and take it away."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: self._failed or key in self._messages, self.deadline)
            if self._failed or not arrived:
                raise LateError(f"the message {key} never came: another worker of this process failed or is late")
            waiting = self._messages[key]
            found = waiting.pop(0)
            if not waiting:
                del self._messages[key]
            return found

    def fail(self) -> None:
        """Wake all waiting threads, because a message will not come."""
        with self._changed:
            self._failed = True
            self._changed.notify_all()


class InProcessTransport(Transport):
    """One thread's end of the wire between the threads of ``hub``."""

    def __init__(self, hub: Hub, rank: int) -> None:
        self.ledger = Ledger()
        self.deadline = hub.deadline
        self.size = hub.size
        self.run = 0
        self.rank = rank
        self.members = tuple(range(hub.size))
        self.machines = Machines((0,) * hub.size)
        self._hub = hub
        self._number = 0
        self._outgoing = {}
        self._expected = {}
        self._unchecked = {}
        self._envelopes = EnvelopeRing()

    def open(
        self,
        send: Tensor,
        received: Tensor,
        incoming: Sequence[Piece],
        where: str,
        tag: int | None = None,
        envelope: Envelope | None = None,
    ) -> Pending:
        """Expect the pieces ``incoming``, as `Transport.open` does."""
        self._number += tag is None
        number = self._number if tag is None else tag
        expected = {} if envelope is None else envelope.expected
        if envelope is not None:
            envelope.seal()
            for peer in envelope.sent:
                self._hub.put(("header", number, self.rank, peer), envelope.leaving[peer])

        def finish() -> None:
            for peer in expected:
                assert envelope is not None
                envelope.arriving[peer].copy_(self._hub.take(("header", number, peer, self.rank)))
                envelope.check({peer: expected[peer]}, self.members, where)
            for piece in incoming:
                received[piece.at] = self._hub.take(("rows", number, piece.number, piece.peer, self.rank))

        return Pending((finish,), received, send, where, number)  # type: ignore[arg-type]

    def dispatch(self, pending: Pending, pieces: Sequence[Piece]) -> None:
        """Send ``pieces``, as `Transport.dispatch` does."""
        for piece in pieces:
            self._hub.put(("rows", pending.tag, piece.number, self.rank, piece.peer), pending.sent[piece.at])

    def start_reduce(self, tensor: Tensor, where: str, account: str | None = None) -> Pending:
        """Launch a sum, as `Transport.start_reduce` does; it is added in rank order, the same on all threads."""
        self._number += 1
        number = self._number
        for peer in range(self.size):
            self._hub.put(("sum", number, self.rank, peer), tensor)

        def finish() -> None:
            parts = [self._hub.take(("sum", number, peer, self.rank)) for peer in range(self.size)]
            tensor.copy_(torch.stack(parts).sum(0))

        return Pending((finish,), tensor, tensor, where)  # type: ignore[arg-type]

    def _finish(self, work: Any, wait: Wait) -> None:
        """Call ``work``, a function that takes the message from the hub, with the hub's deadline."""
        work()

    def broadcast(self, tensor: Tensor, where: str, account: str | None = None) -> Tensor:
        """Copy the first thread's tensor to all, as `Transport.broadcast` does."""
        return self.all_reduce(tensor if self.rank == 0 else tensor.zero_(), where, account)


def run_threads(size: int, work: Callable[[InProcessTransport], Any], deadline: float = 60.0) -> list[Any]:
    """Run ``work`` in one thread per rank, with that rank's transport; returns the results in rank order.

    A thread waits at most ``deadline`` seconds for a message.
    If threads fail, the error of the lowest rank is raised; that of a thread that only waited comes last.
    """
    hub = Hub(size, deadline)
    results: list[Any] = [None] * size
    errors: list[tuple[bool, int, BaseException]] = []

    def run(rank: int) -> None:
        try:
            results[rank] = work(InProcessTransport(hub, rank))
        except BaseException as error:
            errors.append((isinstance(error, LateError), rank, error))
            hub.fail()

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        # A thread that only waited for the one that failed cannot tell the cause.
        raise min(errors, key=lambda found: found[:2])[2]
    return results
