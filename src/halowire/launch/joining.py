"""Joining takes place in a thread of its own: torch's calls may hang in native code, where no signal is heard.

The main thread waits for it until the deadline. At a quarter of the deadline the wait is announced, with the ranks that
are missing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from halowire.errors import LateError
from halowire.launch.place import Place
from halowire.wire import WARN_AFTER, bounded, process_watch, seconds_text

MARGIN = 0.5
"""Seconds past the deadline, in which the thread itself may say better what it has waited for."""
Result = TypeVar("Result")


class Joining:
    """One worker's way to the others: how long it may take, where it leads, and who is missing."""

    def __init__(self, place: Place, deadline: float) -> None:
        self.where = "this machine"
        self._place = place
        self._deadline = deadline
        self._since = time.monotonic()
        # The first worker serves the store, so that the others miss it first.
        self._missing: Sequence[int] = [0] if place.rank else []
        self._over = False
        self._announced = False

    @property
    def left(self) -> float:
        """Seconds until the deadline; a little is always left, since 0 means no limit to torch."""
        return max(0.001, self._deadline - (time.monotonic() - self._since))

    def miss(self, ranks: Sequence[int]) -> None:
        """Note that the ``ranks`` are missing; ends a thread that nobody waits for any more."""
        if self._over:
            raise LateError
        self._missing = list(ranks)

    def run(self, call: Callable[[], Result]) -> Result:
        """The result of ``call()``, in time."""
        watch = process_watch()
        watch.look_often(self._deadline)
        watch.look_at(self)
        try:
            return bounded(call, self.left + MARGIN, "the way to the other workers")
        finally:
            self._over = True

    def look(self) -> None:
        """Say once that joining takes long, if it does."""
        seconds = time.monotonic() - self._since
        if self._over or self._announced or seconds < WARN_AFTER * self._deadline:
            return
        self._announced = True
        ranks = ", ".join(map(str, self._missing))
        print(
            f"warning: rank {self._place.rank} waits {seconds_text(seconds)} for "
            f"{f'rank {ranks}' if ranks else 'the other workers'} to join at {self.where}; gives up after "
            f"{seconds_text(self._deadline)}",
            file=sys.stderr,
            flush=True,
        )
