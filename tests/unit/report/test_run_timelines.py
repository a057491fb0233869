"""The timelines of workers: their order, their bubbles, their Chrome trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from halowire.report import read_run, timelines
from tests.support.fake_pipeline import write_pipeline
from tests.support.pages import runs_page


def test_workers_are_in_the_order_of_parts_then_stages(tmp_path: Path) -> None:
    rows = timelines(read_run(write_pipeline(tmp_path / "run", stages=2, parts=2)))
    assert [(row.part, row.stage, row.rank) for row in rows] == [(0, 0, 0), (0, 1, 2), (1, 0, 1), (1, 1, 3)]


def test_a_worker_that_works_less_has_the_larger_bubble(tmp_path: Path) -> None:
    run = write_pipeline(tmp_path / "run", stages=2, chunks=8)
    path = run / "events-1.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for event in events:
        if event["event"] == "timeline":
            event["spans"] = [span for span in event["spans"] if span[:2] != ["forward", 3]]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    first, second = (row.bubble for row in timelines(read_run(run)))
    assert first == pytest.approx(2 / 18) and second == pytest.approx(2.9 / 18)


def test_the_trace_holds_every_span_in_microseconds(tmp_path: Path) -> None:
    run = write_pipeline(tmp_path / "run", parts=2)
    runs_page([run], tmp_path / "here.html")
    trace = json.loads((tmp_path / "here.trace.json").read_text())
    events = trace["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names[2] == "worker 2: stage 1, part 0, layers 5 to 8" and sorted(names) == [0, 1, 2, 3]
    for rank in range(4):
        written = [json.loads(line) for line in (run / f"events-{rank}.jsonl").read_text().splitlines()]
        spans = next(event["spans"] for event in written if event["event"] == "timeline")
        own = [event for event in events if event["pid"] == rank and event["ph"] == "X"]
        assert all(event["tid"] == rank for event in own)
        found = sorted((e["cat"], e["args"].get("chunk", -1), round(e["ts"]), round(e["dur"])) for e in own)
        assert found == sorted((k, c, round(a * 1e6), round((b - a) * 1e6)) for k, c, _, a, b in spans)
        # A viewer nests events of a thread by their order: an inner one begins after the outer one.
        assert [event["ts"] for event in own] == sorted(event["ts"] for event in own)
