"""The timeline of one epoch on one worker: what the worker did when, for the drawing of the pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Span = tuple[str, int, int, float, float]
"""An interval: kind, chunk, block, start, end."""


@dataclass
class Timeline:
    """Intervals of an epoch: ``(kind, chunk, block, start, end)``, seconds from the start of the epoch.

    Kinds: ``forward``, ``backward`` (a chunk through all blocks of the stage), ``wait`` (for a chunk from the next
    stage, or until what was sent has left), ``transfer`` (coding, handing over, posting receives, decoding: not the
    time on the wire, which runs beside the others and ends in ``wait``), ``exchange``
    (waiting for halo rows inside forward or backward). ``chunk`` and ``block`` are -1 where an interval belongs to no
    single one.
    """

    clock: Callable[[], float] = time.perf_counter
    recording: bool = False
    spans: list[Span] = field(default_factory=list)
    _start: float = 0.0

    def begin(self, recording: bool) -> None:
        """Begin an epoch."""
        self.recording = recording
        self._start = self.clock()
        self.spans = []

    @contextmanager
    def span(self, kind: str, chunk: int, block: int = -1) -> Iterator[None]:
        """Record the time spent inside the ``with`` block."""
        if not self.recording:
            yield
            return
        start = self.clock() - self._start
        yield
        self.spans.append((kind, chunk, block, start, self.clock() - self._start))


def ideal_bubble(stages: int, chunks: int) -> float:
    """The share of idle time ``(S - 1) / (C + S - 1)``, with equal stages and chunks and without transfers."""
    return (stages - 1) / (chunks + stages - 1)
