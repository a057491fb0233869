"""Ctrl-C and SIGTERM as a wish: the run ends after the epoch, with a checkpoint."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ECHO = 2.0
"""Seconds in which a second signal is an echo: a terminal signals the whole group, and the launcher passes it on."""


class StopWish:
    """True once the user or the launcher asked this worker to stop."""

    def __init__(self) -> None:
        self._since: float | None = None

    def __call__(self) -> bool:
        """Whether somebody asked."""
        return self._since is not None

    def ask(self, signum: int = 0, frame: FrameType | None = None) -> None:
        """Ask; has the form of a signal handler. Who asks again, later, does not want to wait for the epoch."""
        now = time.monotonic()
        if self._since is not None and now - self._since > ECHO and signum == signal.SIGINT:
            raise KeyboardInterrupt("interrupted twice: ended at once, without a checkpoint of the last epoch")
        self._since = self._since or now


@contextmanager
def stop_wish() -> Iterator[StopWish]:
    """Catch SIGINT and SIGTERM inside the block (only the main thread may; elsewhere nothing is caught)."""
    wish = StopWish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    before = {number: signal.signal(number, wish.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
