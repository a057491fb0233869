"""Ctrl-C and SIGTERM are a wish to stop: the run ends after the current epoch, with a checkpoint."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

ECHO = 2.0
"""Seconds in which a second signal is an echo: a terminal signals the whole group, and the launcher passes it on."""


class StopWish:
    """The wish to stop: calling it gives True once the user or the launcher asked this worker to stop."""

    def __init__(self) -> None:
        self._since: float | None = None

    def __call__(self) -> bool:
        """Whether somebody asked this worker to stop."""
        return self._since is not None

    def ask(self, signum: int = 0, frame: FrameType | None = None) -> None:
        """Ask this worker to stop; can be a signal handler.

        A user who presses Ctrl-C again after a while does not want to wait for the epoch: that interrupts at once.
        """
        now = time.monotonic()
        if self._since is not None and now - self._since > ECHO and signum == signal.SIGINT:
            raise KeyboardInterrupt("interrupted twice: ended at once, without a checkpoint of the last epoch")
        self._since = self._since or now


@contextmanager
def stop_wish() -> Iterator[StopWish]:
    """Catch SIGINT and SIGTERM inside the block (only the main thread may; elsewhere nothing is caught)."""
    wish = StopWish()
    with signals_kept(signal.SIGINT, signal.SIGTERM) as kept:
        for number in kept:
            signal.signal(number, wish.ask)
        yield wish


@contextmanager
def signals_kept(*numbers: signal.Signals) -> Iterator[Sequence[signal.Signals]]:
    """Put the handlers of the signals ``numbers`` back at the end of the block; gives the signals that it can put back.

    Only the main thread may set handlers: elsewhere there are none.
    """
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in numbers if main}
    try:
        yield list(before)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
