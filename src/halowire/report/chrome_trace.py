"""The pipeline's timelines as a Chrome trace: open it in chrome://tracing or in Perfetto."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from halowire.report.run import Run
from halowire.report.spans import Row, Span, timelines

MICROSECONDS = 1e6


def write_trace(run: Run, report: Path) -> Path | None:
    """Write the trace of a run next to its ``report``; None, and no file, where no timeline was recorded."""
    target = trace_path(report)
    rows = timelines(run)
    if not rows:
        return None
    passing = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    passing.write_text(json.dumps(trace(rows)) + "\n", encoding="utf-8")
    passing.replace(target)
    return target


def trace_path(report: Path) -> Path:
    """report.html has its trace in report.trace.json."""
    return report.with_suffix(".trace.json")


def trace(rows: list[Row]) -> dict[str, Any]:
    """The trace: a process for every worker, complete events in microseconds from the start of the epoch."""
    events = [event for place, row in enumerate(rows) for event in (*_names(row, place), *_spans(row))]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _names(row: Row, place: int) -> list[dict[str, Any]]:
    """What the viewer calls a worker, and where it puts it."""
    at = {"ph": "M", "pid": row.rank, "tid": row.rank}
    return [
        at | {"name": "process_name", "args": {"name": row.full_name}},
        at | {"name": "process_sort_index", "args": {"sort_index": place}},
        at | {"name": "thread_name", "args": {"name": f"epoch {row.epoch}"}},
    ]


def _spans(row: Row) -> list[dict[str, Any]]:
    return [_event(span, row.rank) for span in sorted(row.spans, key=lambda span: (span.start, -span.end))]


def _event(span: Span, rank: int) -> dict[str, Any]:
    where = {"chunk": span.chunk, "layer": span.layer}
    return {
        "name": span.words, "cat": span.kind, "ph": "X", "pid": rank, "tid": rank,
        "ts": span.start * MICROSECONDS, "dur": span.seconds * MICROSECONDS,
        "args": {name: value for name, value in where.items() if value >= 0},
    }  # fmt: skip
