"""Flights: messages under way on a device, whose deadlines a thread watches, since the host does not wait for them.

On a GPU a wait only tells one stream to run after another. If a worker never comes, the host notices nothing until it
reads a value, and then it is stuck in the driver. So the thread that announces long waits looks at the messages too. At
the deadline it asks who else waits and where, aborts the connections, which frees the host, and the next call of the
transport raises the error. Where the host stays stuck all the same, the thread ends the process.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence

import torch.distributed as dist

from halowire.errors import FAILED, LateError
from halowire.wire.deadline import Wait, Watch, who_is_late
from halowire.wire.streams import Mark

FREED_SECONDS = 20.0
"""Seconds that the host gets to raise the error itself, once the connections are aborted."""


class Flight:
    """One operation on a device; ``ready`` is passed when the device has reached it, so that it waits for others."""

    __slots__ = ("_ready", "rank", "wait", "where", "works")

    def __init__(self, where: str, ready: Mark, rank: int | None = None) -> None:
        self.where = where
        self.rank = rank
        self.works: Sequence[dist.Work] | None = None
        """None while the host is still launching the operation, where NCCL may wait for a peer at its first message."""
        self.wait: Wait | None = None
        self._ready = ready

    @property
    def arrived(self) -> bool:
        """Whether the operation is over."""
        return self.works is not None and all(work.is_completed() for work in self.works)

    @property
    def ready(self) -> bool:
        """Whether the device of this worker has come to the operation."""
        return self._ready.query()


class Flights:
    """The operations under way, in the order of their launch on every lane: a process group runs one after another."""

    def __init__(
        self, deadline: float, watch: Watch, groups: list[dist.ProcessGroup | None], abort: Callable[[], None]
    ) -> None:
        """``abort`` ends all operations of ``groups``, finished or not, without waiting for the device."""
        self.deadline = deadline
        self.groups = groups
        self.last_words: Callable[[str], None] = lambda text: print(f"error: {text}", file=sys.stderr, flush=True)
        """Tells the user or the launcher why the process ends, if the host cannot raise the error itself."""
        self._watch = watch
        self._abort = abort
        self._lanes: dict[Hashable, deque[Flight]] = {}
        self._lock = threading.Lock()
        self._late: LateError | None = None
        self._raised = False
        watch.look_often(deadline)
        watch.look_at(self)

    def add(self, lane: Hashable, flight: Flight) -> None:
        """Watch over ``flight``, which is about to be launched on ``lane``."""
        self.check()
        with self._lock:
            flights = self._lanes.setdefault(lane, deque())
            while flights and flights[0].arrived:  # the list stays as short as what is truly under way
                flights.popleft()
            flights.append(flight)

    def check(self) -> None:
        """Raise, if an operation passed its deadline: values that depend on it are not those of the run."""
        if self._late is not None:
            self._raised = True
            raise self._late

    def forget(self) -> None:
        """Watch no longer over what is under way, and let its process groups go."""
        with self._lock:
            self._lanes.clear()

    def look(self) -> None:
        """Announce and end what takes long; the watch's thread calls this."""
        if self._late is not None:
            return
        for flight in self._first():
            if flight.wait is None:
                flight.wait = Wait(flight.where, self.deadline, flight.rank)
            self._watch.announce(flight.wait)
            if flight.wait.seconds >= self.deadline:
                self._give_up(flight.wait)
                return

    def _first(self) -> list[Flight]:
        """Of every lane the first operation that is not over, if this worker's device has come to it."""
        found = []
        with self._lock:
            for flights in self._lanes.values():
                while flights and flights[0].arrived:
                    flights.popleft()
                if flights and flights[0].ready:
                    found.append(flights[0])
        return found

    def _give_up(self, wait: Wait) -> None:
        self._late = LateError(who_is_late(wait, RuntimeError("a message on the device was not finished")))
        self._abort()
        threading.Thread(target=self._end_if_stuck, name="halowire-late", daemon=True).start()

    def _end_if_stuck(self) -> None:
        time.sleep(FREED_SECONDS)
        if not self._raised:
            self.last_words(str(self._late))
            os._exit(FAILED)
