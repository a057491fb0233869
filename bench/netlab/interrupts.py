"""Signals around a lab: a polite end runs the clean-up, and nothing interrupts the clean-up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, FrameType | None], object]


@contextmanager
def raising() -> Iterator[None]:
    """SIGTERM and SIGHUP raise ``SystemExit`` in the block, as SIGINT raises ``KeyboardInterrupt``: clean-up runs."""
    unhandled = [number for number in ENDING if _here() and signal.getsignal(number) is signal.SIG_DFL]
    with _handled(_leave, *unhandled):
        yield


@contextmanager
def shielded() -> Iterator[None]:
    """Signals that would end the program do nothing in the block."""
    with _handled(lambda *_: None, *(ENDING if _here() else ())):
        yield


@contextmanager
def _handled(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _here() -> bool:
    """Only the main thread may set handlers."""
    return threading.current_thread() is threading.main_thread()


def _leave(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
