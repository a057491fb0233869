"""Ctrl-C, SIGTERM and a closed terminal are a wish to stop: the run ends after the current epoch, with a checkpoint."""

from __future__ import annotations

import errno
import os
import signal
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType

from halowire.interruption import ECHO, second_interrupt_ends
from halowire.launch.place import launched

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""The signals that end a run: Ctrl-C, a cluster's end of time, a closed terminal, and the other key of a terminal."""


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
        leave_closed_terminal()
        now = time.monotonic()
        if self._since is not None and now - self._since > ECHO and signum == signal.SIGINT:
            raise KeyboardInterrupt("interrupted twice: ended at once, without a checkpoint of the last epoch")
        self._since = self._since or now


@contextmanager
def stop_wish() -> Iterator[StopWish]:
    """Catch the signals that end a run inside the block (only the main thread may; elsewhere nothing is caught).

    SIGHUP stays ignored where it is: so `nohup` asks for a run that outlives the terminal. A worker that a launcher
    started ends at the second Ctrl-C whatever it does; a notebook must not.
    """
    wish = StopWish()
    with signals_kept(*SIGNALS) as kept, second_interrupt_ends() if launched() else nullcontext():
        for number in kept:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
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


def leave_closed_terminal() -> None:
    """Let output go nowhere where its terminal was closed: an error at the next line would cost the checkpoint."""
    for stream in (1, 2):
        try:
            termios.tcgetattr(stream)
        except termios.error as error:
            # Any other error says that the stream is a file or a pipe.
            if error.args[0] == errno.EIO:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream)
                os.close(nowhere)
