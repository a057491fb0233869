"""Streams of the simulated device: the order of its work, and copies to the host that are under way.

Work that the host gives to two streams has no order, unless one waits for the other. A copy to pinned memory is under
way until the host has waited for an event behind it: until then there is garbage at its target, and its source must
stay as it is. A copy in the stream that computes is behind all that wrote its source, and before all that follows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

import torch

from tests.support.sim.rules import DeviceError


class SimStream:
    """One order of work."""

    def __init__(self, device: object = None) -> None:
        self.operations = 0
        self.under_way: list[Callable[[], None]] = []
        """Delivers each of the copies that the host has not waited for; does nothing when it is called again."""
        self._seen: dict[SimStream, int] = {}

    def wait_stream(self, other: SimStream) -> None:
        """Let what this stream is given from now on run after what ``other`` has been given so far."""
        self._seen[other] = other.operations

    def refuse_unordered(self, computing: SimStream) -> None:
        """Refuse to read rows in this stream unless it runs after all that ``computing`` has been given."""
        if self is not computing and self._seen.get(computing, 0) < computing.operations:
            raise DeviceError("race: a stream reads rows before it has waited for the stream that computes them")


class Streams:
    """The streams of the device; every thread has a current one."""

    def __init__(self) -> None:
        self.computing = SimStream()
        self._here = threading.local()

    @property
    def current(self) -> SimStream:
        """The stream that gets the work of this thread."""
        found: SimStream = getattr(self._here, "stream", self.computing)
        return found

    @contextmanager
    def use(self, stream: SimStream) -> Iterator[None]:
        """Make ``stream`` the current one in the block."""
        before = self.current
        self._here.stream = stream
        try:
            yield
        finally:
            self._here.stream = before


def late_copy(host: torch.Tensor, values: torch.Tensor, over: Callable[[], None]) -> Callable[[], None]:
    """Begin a copy of ``values`` to ``host``, where garbage is until the result is called; ``over`` is then called."""
    waiting = [values.clone()]
    host.fill_(float("nan") if host.is_floating_point() else 85)

    def deliver() -> None:
        while waiting:
            host.copy_(waiting.pop())
            over()

    return deliver


def pin(host: torch.Tensor) -> torch.Tensor:
    """Mark ``host`` as memory to and from which the device copies while the host goes on."""
    store = host.untyped_storage()
    _PINNED[store.data_ptr()] = store
    return host


def is_pinned(host: torch.Tensor) -> bool:
    """Whether ``host`` is such memory, or a part of it."""
    return host.device.type == "cpu" and host.untyped_storage().data_ptr() in _PINNED


# The storages of pinned memory that are in use.
_PINNED: WeakValueDictionary[int, torch.UntypedStorage] = WeakValueDictionary()
