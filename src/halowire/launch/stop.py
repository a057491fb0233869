"""Ctrl-C and SIGTERM as a wish: the run ends after the epoch, with a checkpoint."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopWish:
    """True once the user or the launcher asked this worker to stop."""

    def __init__(self) -> None:
        self._asked = False

    def __call__(self) -> bool:
        """Whether somebody asked."""
        return self._asked

    def ask(self, signum: int = 0, frame: FrameType | None = None) -> None:
        """Ask; has the form of a signal handler."""
        self._asked = True


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
