"""The clock of the ledger: the host's, or that of a device, which works on while the host goes ahead."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # the report reads ledgers without torch
    import torch

Totals = Any
"""Seconds by key: a dict or a list of numbers."""


class Clock(Protocol):
    """Measures how long parts of a run take."""

    def now(self) -> Any:
        """This moment, as the clock notes it."""

    def add(self, totals: Totals, key: Hashable, since: Any, until: Any) -> None:
        """Add the seconds from the moment ``since`` to the moment ``until`` to ``totals[key]``, by the next read."""

    def read(self) -> None:
        """Make all seconds known that were added so far."""


class HostClock:
    """The host's clock, whose seconds are known at once; right where the host itself computes."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.now = clock

    def add(self, totals: Totals, key: Hashable, since: float, until: float) -> None:
        """Add ``until - since``."""
        totals[key] += until - since

    def read(self) -> None:
        """Do nothing: all seconds are known."""


class DeviceClock:
    """The clock of a device: a moment is an event in the stream of its work.

    The host only puts work into that stream, so its own clock would tell how long it takes to ask for the work. The
    events are read all at once: the host waits for the last of them, behind which all others lie.
    """

    def __init__(self, device: torch.device) -> None:
        import torch

        self._module = torch.get_device_module(device)
        # Messages may have a stream of their own: a wait for them shows in the stream that computes, as idle time.
        self._stream = self._module.current_stream(device)
        self._spans: list[tuple[Totals, Hashable, Any, Any]] = []

    def now(self) -> Any:
        """An event behind all work that the device has been given."""
        event = self._module.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def add(self, totals: Totals, key: Hashable, since: Any, until: Any) -> None:
        """Remember both events until :meth:`read`."""
        self._spans.append((totals, key, since, until))

    def read(self) -> None:
        """Wait for the last event, and read the seconds between all of them."""
        if self._spans:
            self._spans[-1][3].synchronize()
        for totals, key, since, until in self._spans:
            totals[key] += since.elapsed_time(until) / 1e3
        self._spans.clear()


def clock_of(device: torch.device) -> Clock:
    """The clock that tells the truth about work on ``device``."""
    return HostClock() if device.type == "cpu" else DeviceClock(device)
