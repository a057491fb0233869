"""The files of a run folder are read, even if incomplete: settings, summary, events and timelines of every rank."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from halowire.errors import InputError
from halowire.files import write_text
from halowire.inputs import file_size, open_file, read_json, read_lines
from halowire.report.units import Json, as_list, as_object, number

LARGEST = 1 << 53
"""No run has more epochs; what a figure draws must be exact as a float."""
TAIL = 16384
"""Bytes at the end of an events file in which its newest epoch is looked for."""
KINDS = {
    "forward": "forward", "backward": "backward", "wait": "waiting", "exchange": "waiting for halo rows",
    "transfer": "transfer",
}  # fmt: skip
"""Kinds of spans and their names for a reader; an ``exchange`` lies inside a ``forward`` or ``backward``, spans of the
other kinds follow each other."""
TURNS = ("lowered", "recut")
"""Events after which a run goes on in another way."""
BUSY = ("forward", "backward", "transfer")
MICROSECONDS = 1e6


@dataclass(frozen=True)
class RankEvents:
    """The events of one worker: its start, its epochs and evaluations by number, its last timeline, its end.

    ``turns`` are the moments at which the run changed its course: a lower learning rate, another number of workers.
    """

    rank: int
    start: Json = field(default_factory=dict)
    epochs: dict[int, Json] = field(default_factory=dict)
    evals: dict[int, Json] = field(default_factory=dict)
    end: Json = field(default_factory=dict)
    unreadable: int = 0
    timeline: Json = field(default_factory=dict)
    turns: tuple[Json, ...] = ()


@dataclass(frozen=True)
class RunFiles:
    """The content of a run folder; ``ranks`` is in ascending order and may have gaps, ``summary`` may be empty."""

    folder: Path
    config: Json
    summary: Json
    ranks: tuple[RankEvents, ...]

    @property
    def first(self) -> RankEvents:
        """The events of the lowest rank, which have the metrics."""
        return self.ranks[0] if self.ranks else RankEvents(0)

    @property
    def present(self) -> tuple[RankEvents, ...]:
        """The ranks that the run had when it was last started; after a resume with fewer workers others are gone."""
        workers = number(self.first.start.get("workers"))
        # Where the start says no number, workers is NaN, and all ranks count.
        return tuple(rank for rank in self.ranks if not rank.rank >= workers)

    def epochs(self) -> list[int]:
        """Every epoch that some rank finished, in ascending order."""
        return sorted({epoch for rank in self.ranks for epoch in rank.epochs})


def read_object(path: Path) -> Json:
    """The JSON object in a file; empty when the file is missing, cut off or holds something else."""
    try:
        return as_object(read_json(path))
    except (OSError, ValueError):
        return {}


def read_rank(path: Path, rank: int) -> RankEvents:
    """The events of one rank; if an epoch was repeated after a restart, its last events count."""
    single: dict[str, Json] = {"start": {}, "end": {}, "timeline": {}}
    by_epoch: dict[str, dict[int, Json]] = {"epoch": {}, "eval": {}}
    turns: list[Json] = []
    unreadable = 0
    for line in read_lines(path):
        if not line.strip():
            continue
        try:
            event = json.loads(line.decode("utf-8", errors="replace"))
            kind = event["event"]
            if kind in by_epoch:
                by_epoch[kind][_epoch_of(event)] = event
            elif kind in single:
                single[kind] = event
            elif kind in TURNS:
                turns.append(event)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            unreadable += 1
    epochs, evals = by_epoch["epoch"], by_epoch["eval"]
    return RankEvents(rank, epochs=epochs, evals=evals, unreadable=unreadable, turns=tuple(turns), **single)


def _epoch_of(event: Json) -> int:
    """The number of an event's epoch; ValueError where no run can have it."""
    epoch = int(event["epoch"])
    if not 0 <= epoch <= LARGEST:
        raise ValueError(f"epoch {epoch}")
    return epoch


def read_run(folder: Path) -> RunFiles:
    """Read a run folder; a folder with neither events nor a summary is refused."""
    found = sorted(
        (int(match[1]), path)
        for path in (folder.iterdir() if folder.is_dir() else ())
        if (match := re.fullmatch(r"events-(\d{1,5})\.jsonl", path.name))
    )
    summary = read_object(folder / "summary.json")
    if not found and not summary:
        what = "has no events-<rank>.jsonl and no summary.json" if folder.is_dir() else "is not a folder"
        raise InputError(f"{folder} {what}: give the folder that `halowire train --out` wrote")
    try:
        ranks = tuple(read_rank(path, rank) for rank, path in found)
    except ValueError as error:
        raise InputError(f"the events in {folder} cannot be read ({error}); move what is no file away") from None
    return RunFiles(folder, read_object(folder / "config.json"), summary, ranks)


def last_epoch(path: Path) -> int | None:
    """The newest epoch in a file of events that is being written; None before the first epoch is done."""
    try:
        with open_file(path) as file:
            file.seek(max(0, file_size(path) - TAIL))
            lines = file.read().splitlines()
    except (OSError, ValueError):
        return None
    for line in reversed(lines):
        try:
            return _epoch_of(json.loads(line))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
    return None


@dataclass(frozen=True)
class Span:
    """What a worker did from ``start`` to ``end``, in seconds; ``chunk`` or ``layer`` is -1 if the span has none."""

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
        # A viewer nests events by their order: an outer event must come before the events inside it.
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
    """The share of the epoch in which a worker works on no chunk.

    The epoch ends for all workers at ``end``, when the slowest is done: a stage that is done with backward earlier
    waits for the others before the weights change, and this wait is part of the bubble.
    """
    return max(0.0, 1 - sum(map(row.seconds, BUSY)) / end) if end else 0.0


def _timeline(rank: RankEvents) -> WorkerTimeline | None:
    """The worker's last timeline; None if no timeline can be read."""
    found = rank.timeline
    spans = [span for one in as_list(found.get("spans")) if (span := _span(one)) is not None]
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
    """A span from an entry of the events; None if the entry is something else."""
    if not isinstance(found, list) or len(found) != 5 or found[0] not in KINDS:
        return None
    chunk, layer, start, end = map(number, found[1:])
    good = math.isfinite(chunk) and math.isfinite(layer) and 0 <= start <= end
    return Span(found[0], int(chunk), int(layer), start, end) if good else None
