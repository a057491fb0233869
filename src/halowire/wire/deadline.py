"""Deadlines: every wait ends, a long one is announced, and the message says who is late, where, and how long it took.

A wait for a Gloo message cannot be tried for a while and then gone on with: a wait that times out aborts all messages
of its group. So a thread of its own looks at the waits from time to time, and prints a line when one takes long.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Protocol, TypeVar
from weakref import WeakSet

import torch
import torch.distributed as dist

from halowire.errors import LateError, without_source

STORE_SECONDS = 3.0
"""Seconds that the store, which may be out of reach, gets to answer who else waits."""
WARN_AFTER = 0.25
"""Share of the deadline after which a wait is announced."""
LONGEST_NAP = 5.0
"""Most seconds between two looks at the waits."""
GONE = (
    "a worker that is gone has failed, or has ended after fewer steps than others: all take the same number, also over "
    "batches of their own rows"
)
"""The usual causes where a connection is closed, as it is where a script's loop is over."""
Result = TypeVar("Result")


class Wait:
    """One wait under way: since when, at most how long, where, and for which rank (None: for all others)."""

    __slots__ = ("deadline", "rank", "since", "warned", "where")

    def __init__(self, where: str, deadline: float, rank: int | None = None) -> None:
        self.since = time.monotonic()
        self.where = where
        self.deadline = deadline
        self.rank = rank
        self.warned = False

    @property
    def seconds(self) -> float:
        """How long the wait has taken so far."""
        return time.monotonic() - self.since

    @property
    def left(self) -> float:
        """Seconds until the deadline; a little is always left, since 0 means no limit to Gloo."""
        return max(0.001, self.deadline - self.seconds)


class Looked(Protocol):
    """Something else that the thread of a watch looks at from time to time."""

    def look(self) -> None:
        """Announce and end what takes long."""


class Watch:
    """Announces waits that take long; only its own thread spends time on that, a wait just enters itself here."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.waits: dict[int, Wait] = {}
        self._others: WeakSet[Looked] = WeakSet()
        self._say = say
        self._nap = LONGEST_NAP
        self._changed = threading.Event()
        threading.Thread(target=self._look, name="halowire-watch", daemon=True).start()

    def look_often(self, deadline: float) -> None:
        """Look often enough for waits with this ``deadline``."""
        nap = max(0.02, deadline * WARN_AFTER / 8)
        if nap < self._nap:
            self._nap = nap
            self._changed.set()

    @contextmanager
    def over(self, wait: Wait) -> Iterator[Wait]:
        """Watch over ``wait`` during the block."""
        self.waits[id(wait)] = wait
        try:
            yield wait
        finally:
            del self.waits[id(wait)]

    def look_at(self, other: Looked) -> None:
        """Let the thread look at ``other`` too, as long as it lives."""
        self._others.add(other)

    def announce(self, wait: Wait) -> None:
        """Say once that ``wait`` takes long, if it does."""
        if not wait.warned and wait.seconds >= WARN_AFTER * wait.deadline:
            wait.warned = True
            self._say(announcement(wait))

    def _look(self) -> None:
        while True:
            self._changed.wait(self._nap)
            self._changed.clear()
            for wait in list(self.waits.values()):
                self.announce(wait)
            for other in list(self._others):
                other.look()


def announcement(wait: Wait) -> str:
    """The line that announces a long wait."""
    others = "the other workers" if wait.rank is None else f"rank {wait.rank}"
    return (
        f"rank {dist.get_rank() if dist.is_initialized() else 0} waits {seconds_text(wait.seconds)} for {others} at "
        f"{wait.where}; gives up after {seconds_text(wait.deadline)}"
    )


@cache
def process_watch() -> Watch:
    """The watch of this process, which all its transports share."""
    return Watch(lambda text: print(f"warning: {text}", file=sys.stderr, flush=True))


def bounded(call: Callable[[], Result], seconds: float, what: str) -> Result:
    """The result of ``call()``; a `LateError` after ``seconds``, even if the call is stuck in native code.

    Calls that may be stuck for ever (the store behind a link that is down) are left behind in a thread of their own.
    """
    results: list[Result] = []
    errors: list[BaseException] = []
    done = threading.Event()
    # Only where this process uses GPUs: the question alone would take memory of one.
    device = torch.cuda.current_device() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]

    def work() -> None:
        try:
            if device is not None:
                torch.cuda.set_device(device)  # torch keeps it by thread
            results.append(call())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=work, name=f"halowire-{what}", daemon=True).start()
    done.wait(seconds)  # the main thread hears signals meanwhile
    if errors:
        raise errors[0]
    if not results:
        raise LateError(
            f"{what} took longer than {seconds_text(seconds)}: another worker is late, gone, or out of reach"
        )
    return results[0]


def who_is_late(wait: Wait, error: RuntimeError) -> str:
    """Say which workers are late: each worker that gives up writes so to the store; the others are late or gone."""
    mine, seconds = dist.get_rank(), seconds_text(wait.seconds)
    reason = without_source(error)
    others = [rank for rank in range(dist.get_world_size()) if rank != mine]
    try:
        seen = bounded(lambda: _others_waiting(mine, others, wait.where), STORE_SECONDS, "a question to the store")
    except RuntimeError:
        whom = "the other workers" if wait.rank is None else f"rank {wait.rank}"
        what = f"rank {mine} gave up waiting at {wait.where} for {whom} after {seconds}, and reaches no one"
        return f"{what}; {GONE}: {reason}"
    silent = [rank for rank in others if rank not in seen]
    also = "".join(f"; rank {rank} waits at {place}" for rank, place in seen.items())
    late = f"; no word from rank {', '.join(map(str, silent))}: late or gone; {GONE}" if silent else ""
    return f"rank {mine} gave up waiting at {wait.where} after {seconds}{late}{also} ({reason})"


def _others_waiting(mine: int, others: list[int], where: str) -> dict[int, str]:
    """Tell the store that this worker waits at ``where``; returns where the ``others`` wait that told it so."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"halowire/late/{mine}", where)
    return {
        rank: store.get(f"halowire/late/{rank}").decode() for rank in others if store.check([f"halowire/late/{rank}"])
    }


def seconds_text(seconds: float) -> str:
    """Seconds in words: whole ones from 10 on."""
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"
