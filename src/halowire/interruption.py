"""The second Ctrl-C ends the program even while a native call, such as a wait for another worker, holds Python back.

Python runs a signal's handler only between two of its own steps, so that a native call delays it until it returns. But
it also writes the number of every signal into a pipe at once, and a thread reads it there.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from halowire.errors import INTERRUPTED

ECHO = 0.5
"""Seconds in which a second signal is an echo: a terminal signals a whole group, and some programs pass that on."""
PATIENCE = 3.0
"""Seconds that the main thread gets to end by itself after the second Ctrl-C."""
LAST_WORDS = b"halowire: interrupted twice: ended at once\n"


@contextmanager
def second_interrupt_ends() -> Iterator[None]:
    """End the process, with a line, when Ctrl-C is pressed twice and the block is not left soon after.

    Only the main thread may ask for signals. Where somebody else does, as an event loop, it stays as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.set_wakeup_fd(-1)
    if before != -1:
        signal.set_wakeup_fd(before)
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(reader,), name="halowire-interrupt", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        os.close(writer)  # the thread ends


def _listen(reader: int) -> None:
    """Read signals from the pipe ``reader`` until its other end is closed, or until two of them end the process."""
    first = end = None
    pipe = select.poll()
    pipe.register(reader, select.POLLIN)
    while pipe.poll(None if end is None else max(0.0, 1000 * (end - time.monotonic()))):
        numbers = os.read(reader, 64)
        if not numbers:
            os.close(reader)
            return
        now = time.monotonic()
        if signal.SIGINT in numbers:
            first = first or now
            if end is None and now - first > ECHO:
                end = now + PATIENCE
    if os.environ.get("LOCAL_RANK", "0") == "0":  # one worker of a machine speaks for all
        with suppress(OSError):
            os.write(2, LAST_WORDS)
    os._exit(INTERRUPTED)
