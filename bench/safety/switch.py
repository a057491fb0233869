"""A switch that takes headers and checks out of the program's epochs, for this benchmark only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any

from torch import Tensor

import halowire.wire.transport as transport_module
from halowire.training.flat import FlatGradients
from halowire.wire import Envelope, Pending, Piece, Transport
from halowire.wire.deadline import Watch
from halowire.wire.message import Message


class Switch:
    """While ``off``: no header is made, sent, awaited or compared, no wait is watched, gradients are not looked at.

    ``seconds`` counts the processor's time that those calls take in this thread while it is on, without waiting.
    """

    def __init__(self) -> None:
        self.off = False
        self.seconds = 0.0

    def install(self) -> None:
        """Put the switch into this process."""
        opened = Transport.open

        def open_message(
            transport: Transport,
            send: Tensor,
            received: Tensor,
            incoming: Sequence[Piece],
            where: str,
            tag: int | None = None,
            envelope: Envelope | None = None,
        ) -> Pending:
            return opened(transport, send, received, incoming, where, tag, None if self.off else envelope)

        Transport.open = open_message  # type: ignore[assignment, method-assign]
        self._replace(Transport, "_expect_headers", None)
        self._replace(Transport, "_send_headers", None)
        self._replace(Message, "_headers", dict)
        self._replace(transport_module, "headers_of", dict)
        self._replace(Envelope, "check", lambda: None)
        self._replace(FlatGradients, "_note_finite", lambda: None)
        over = Watch.over

        def watched(watch: Watch, wait: Any) -> Any:
            return nullcontext(wait) if self.off else self._counted(over(watch, wait))

        Watch.over = watched  # type: ignore[assignment, method-assign]

    def _replace(self, owner: type | ModuleType, name: str, instead: Callable[[], Any] | None) -> None:
        """Let a method be timed while the switch is on, and be ``instead`` while it is off."""
        method = getattr(owner, name)

        def call(*words: Any, **named: Any) -> Any:
            if self.off and instead is not None:
                return instead()
            start = time.thread_time()
            try:
                return method(*words, **named)
            finally:
                self.seconds += time.thread_time() - start

        setattr(owner, name, call)

    @contextmanager
    def _counted(self, inner: Any) -> Iterator[Any]:
        """Enter and leave ``inner``, and count both; the block itself is the wait, not its cost."""
        start = time.thread_time()
        with inner as wait:
            self.seconds += time.thread_time() - start
            try:
                yield wait
            finally:
                start = time.thread_time()
        self.seconds += time.thread_time() - start
