"""Timelines: when every worker of a pipeline did what in one epoch, read from a run's events, and as a Chrome trace."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from halowire.files import write_text
from halowire.report.run_files import Json, RankEvents, RunFiles
from halowire.report.units import number

KINDS = {
    "forward": "forward",
    "backward": "backward",
    "wait": "waiting",
    "exchange": "waiting for halo rows",
    "transfer": "transfer",
}
"""Kinds of spans and what a reader calls them; an ``exchange`` lies inside a ``forward`` or ``backward``, the other
kinds follow each other."""
BUSY = ("forward", "backward", "transfer")
MICROSECONDS = 1e6


@dataclass(frozen=True)
class Span:
    """What a worker did from ``start`` to ``end``, in seconds; ``chunk`` and ``layer`` are -1 where there is none."""

    kind: str
    chunk: int
    layer: int
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long the span took."""
        return self.end - self.start

    @property
    def words(self) -> str:
        """The span in words: forward, chunk 3; or waiting for halo rows, chunk 3, layer 2."""
        at = [f"chunk {self.chunk}"] if self.chunk >= 0 else []
        at += [f"layer {self.layer}"] if self.layer >= 0 else []
        return ", ".join([KINDS[self.kind], *at])


@dataclass(frozen=True)
class WorkerTimeline:
    """One worker's spans of an epoch, its place in the mesh, its bubble, and the ``ideal`` bubble of equal chunks."""

    rank: int
    stage: int
    part: int
    epoch: int
    ideal: float
    spans: tuple[Span, ...]
    bubble: float = 0.0
    layers: str = ""

    @property
    def name(self) -> str:
        """A name such as worker 2: stage 1, part 0; short enough to stand beside the bubble on a narrow page."""
        return f"worker {self.rank}: stage {self.stage}, part {self.part}"

    @property
    def full_name(self) -> str:
        """The name with the layers: worker 2: stage 1, part 0, layers 5 to 8."""
        word = "layers" if "to" in self.layers else "layer"
        return f"{self.name}, {word} {self.layers}" if self.layers else self.name

    @property
    def end(self) -> float:
        """When the worker's last span ended."""
        return max(span.end for span in self.spans)

    def seconds(self, kind: str) -> float:
        """The time of all spans of a kind, in seconds."""
        return sum(span.seconds for span in self.spans if span.kind == kind)


def timelines(run: RunFiles) -> list[WorkerTimeline]:
    """The timelines of one epoch, part by part in the order of the stages; empty where none was recorded."""
    rows = [row for rank in run.ranks if (row := _timeline(rank)) is not None]
    epoch = max((row.epoch for row in rows), default=0)
    rows = sorted((row for row in rows if row.epoch == epoch), key=lambda row: (row.part, row.stage, row.rank))
    end = max((row.end for row in rows), default=0.0)
    return [replace(row, bubble=_bubble(row, end)) for row in rows]


def mean_bubble(rows: list[WorkerTimeline]) -> float:
    """The mean of the workers' bubbles."""
    return fmean(row.bubble for row in rows)


def write_trace(run: RunFiles, report: Path) -> Path | None:
    """Write report.trace.json beside report.html, for chrome://tracing or Perfetto; None where no timeline is known."""
    rows = timelines(run)
    if not rows:
        return None
    target = report.with_suffix(".trace.json")
    write_text(target, json.dumps(chrome_trace(rows)) + "\n")
    return target


def chrome_trace(rows: list[WorkerTimeline]) -> Json:
    """The trace: one process for every worker, with events in microseconds from the start of the epoch."""
    events: list[Json] = []
    for place, row in enumerate(rows):
        at = {"ph": "M", "pid": row.rank, "tid": row.rank}
        events.append(at | {"name": "process_name", "args": {"name": row.full_name}})
        events.append(at | {"name": "process_sort_index", "args": {"sort_index": place}})
        events.append(at | {"name": "thread_name", "args": {"name": f"epoch {row.epoch}"}})
        # A viewer nests events by their order: an outer one comes before those inside it.
        events += [_event(span, row.rank) for span in sorted(row.spans, key=lambda span: (span.start, -span.end))]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _event(span: Span, rank: int) -> Json:
    where = {"chunk": span.chunk, "layer": span.layer}
    return {
        "name": span.words, "cat": span.kind, "ph": "X", "pid": rank, "tid": rank,
        "ts": span.start * MICROSECONDS, "dur": span.seconds * MICROSECONDS,
        "args": {name: value for name, value in where.items() if value >= 0},
    }  # fmt: skip


def _bubble(row: WorkerTimeline, end: float) -> float:
    """The share of the epoch in which a worker has no chunk in work.

    The epoch ends for all workers when the slowest is done, at ``end``: a stage that is done with backward earlier
    waits for the others before the weights change, and that is bubble too.
    """
    return max(0.0, 1 - sum(map(row.seconds, BUSY)) / end) if end else 0.0


def _timeline(rank: RankEvents) -> WorkerTimeline | None:
    """The worker's last timeline; None where it has none that can be read."""
    found = rank.timeline
    listed = found.get("spans")
    spans = [span for one in listed if (span := _span(one)) is not None] if isinstance(listed, list) else []
    places = [number(found.get(key)) for key in ("stage", "part", "epoch")]
    ideal = number(found.get("ideal_bubble"))
    if not spans or not all(map(math.isfinite, (*places, ideal))):
        return None
    stage, part, epoch = map(int, places)
    return WorkerTimeline(rank.rank, stage, part, epoch, ideal, tuple(spans), layers=_layers(found.get("layers")))


def _layers(found: Any) -> str:
    """``[5, 8]``, the first and the last layer of a stage, as ``5 to 8``; empty where they are not known."""
    if not isinstance(found, list) or len(found) != 2 or not all(isinstance(layer, int) for layer in found):
        return ""
    return str(found[0]) if found[0] == found[1] else f"{found[0]} to {found[1]}"


def _span(found: Any) -> Span | None:
    """A span as the events hold it; None where it is something else."""
    if not isinstance(found, list) or len(found) != 5 or found[0] not in KINDS:
        return None
    chunk, layer, start, end = map(number, found[1:])
    good = math.isfinite(chunk) and math.isfinite(layer) and 0 <= start <= end
    return Span(found[0], int(chunk), int(layer), start, end) if good else None
