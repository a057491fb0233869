"""The timeline of one epoch on one worker: what the worker did when, for the drawing of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from halowire.events import Ledger

Span = tuple[str, int, int, float, float]
"""An interval: kind, chunk, block, start, end."""


class Timeline:
    """Intervals of an epoch: ``(kind, chunk, block, start, end)``, seconds from the start of the epoch.

    Kinds: ``forward``, ``backward`` (a chunk through all blocks of the stage), ``wait`` (for a chunk from the next
    stage, or until what was sent has left), ``transfer`` (coding, handing over, posting receives, decoding: not the
    time on the wire, which runs beside the others and ends in ``wait``), ``exchange``
    (waiting for halo rows inside forward or backward). ``chunk`` and ``block`` are -1 where an interval belongs to no
    single one.
    """

    def __init__(self, ledger: Ledger | None = None) -> None:
        """The clock is that of ``ledger``: on a device, the device's own."""
        self._ledger = ledger or Ledger()
        self._recording = False
        self._start: Any = None
        self._found: list[tuple[str, int, int, list[float]]] = []

    @property
    def spans(self) -> list[Span]:
        """The intervals of the last epoch that was recorded; they are known once the ledger was taken."""
        return [(kind, chunk, block, start, end) for kind, chunk, block, (start, end) in self._found]

    def begin(self, recording: bool) -> None:
        """Begin an epoch."""
        self._recording = recording
        self._found = []
        if recording:
            self._start = self._ledger.clock.now()

    @contextmanager
    def span(self, kind: str, chunk: int, block: int = -1) -> Iterator[None]:
        """Record the time spent inside the ``with`` block."""
        if not self._recording:
            yield
            return
        clock = self._ledger.clock
        times = [0.0, 0.0]
        clock.add(times, 0, self._start, clock.now())
        yield
        clock.add(times, 1, self._start, clock.now())
        self._found.append((kind, chunk, block, times))


def ideal_bubble(stages: int, chunks: int) -> float:
    """The share of idle time ``(S - 1) / (C + S - 1)``, with equal stages and chunks and without transfers."""
    return (stages - 1) / (chunks + stages - 1)
