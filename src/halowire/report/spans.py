"""The timelines of a run's workers, read from their events: what each did when, in one epoch of the pipeline."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean

from halowire.report.run import Rank, Run
from halowire.report.units import number

KINDS = {
    "forward": "forward",
    "backward": "backward",
    "wait": "waiting",
    "exchange": "waiting for halo rows",
    "transfer": "transfer",
}
"""Kinds of spans with their words; ``exchange`` lies inside ``forward`` and ``backward``, the others follow each other.
"""
BUSY = ("forward", "backward", "transfer")


@dataclass(frozen=True)
class Span:
    """``kind``, from ``start`` to ``end`` in seconds; ``chunk`` and ``layer`` are -1 where a span belongs to none."""

    kind: str
    chunk: int
    layer: int
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start

    @property
    def words(self) -> str:
        """forward, chunk 3; waiting for halo rows, chunk 3, layer 2."""
        at = [f"chunk {self.chunk}"] if self.chunk >= 0 else []
        at += [f"layer {self.layer}"] if self.layer >= 0 else []
        return ", ".join([KINDS[self.kind], *at])


@dataclass(frozen=True)
class Row:
    """One worker's timeline, and its place in the mesh."""

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
        """worker 2: stage 1, part 0; short enough to stand beside the bubble on a narrow page."""
        return f"worker {self.rank}: stage {self.stage}, part {self.part}"

    @property
    def full_name(self) -> str:
        """worker 2: stage 1, part 0, layers 5 to 8."""
        word = "layers" if "to" in self.layers else "layer"
        return f"{self.name}, {word} {self.layers}" if self.layers else self.name

    @property
    def end(self) -> float:
        """When its last span ended."""
        return max(span.end for span in self.spans)

    def seconds(self, kind: str) -> float:
        """Time of all spans of a kind."""
        return sum(span.seconds for span in self.spans if span.kind == kind)


def timelines(run: Run) -> list[Row]:
    """The timelines of one epoch, part by part in the order of the stages; empty where none was recorded."""
    rows = [row for rank in run.ranks if (row := _row(rank)) is not None]
    epoch = max((row.epoch for row in rows), default=0)
    rows = sorted((row for row in rows if row.epoch == epoch), key=lambda row: (row.part, row.stage, row.rank))
    end = max((row.end for row in rows), default=0.0)
    return [replace(row, bubble=_bubble(row, end)) for row in rows]


def _bubble(row: Row, end: float) -> float:
    """The share of the epoch in which a worker has no chunk in work.

    The epoch ends for all workers when the slowest is done, at ``end``: a stage that is done with backward earlier
    waits for the others before the weights change, and that is bubble too.
    """
    return max(0.0, 1 - sum(map(row.seconds, BUSY)) / end) if end else 0.0


def mean_bubble(rows: list[Row]) -> float:
    """The mean of the workers' bubbles."""
    return fmean(row.bubble for row in rows)


def _row(rank: Rank) -> Row | None:
    """The worker's last timeline; None where it has none that can be read."""
    found = rank.timeline
    listed = found.get("spans")
    spans = [_span(one) for one in listed] if isinstance(listed, list) else []
    places = [number(found.get(key)) for key in ("stage", "part", "epoch")]
    ideal = number(found.get("ideal_bubble"))
    read = [span for span in spans if span is not None]
    if not read or not all(map(math.isfinite, (*places, ideal))):
        return None
    stage, part, epoch = map(int, places)
    return Row(rank.rank, stage, part, epoch, ideal, tuple(read), layers=_layers(found.get("layers")))


def _layers(found: object) -> str:
    """``[5, 8]``, the first and the last layer of a stage, in words; empty where they are not known."""
    if not isinstance(found, list) or len(found) != 2 or not all(isinstance(layer, int) for layer in found):
        return ""
    return str(found[0]) if found[0] == found[1] else f"{found[0]} to {found[1]}"


def _span(found: object) -> Span | None:
    """A span as the events hold it; None where it is something else."""
    if not isinstance(found, list) or len(found) != 5 or found[0] not in KINDS:
        return None
    chunk, layer, start, end = map(number, found[1:])
    good = math.isfinite(chunk) and math.isfinite(layer) and 0 <= start <= end
    return Span(found[0], int(chunk), int(layer), start, end) if good else None
