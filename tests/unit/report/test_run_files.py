"""Reading run folders, whole and damaged, files of events that are still being written, and timelines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from halowire.errors import InputError
from halowire.report import read_run, series, timelines
from halowire.report.run_files import last_epoch, read_rank
from tests.support.fake_pipeline import write_pipeline
from tests.support.pages import runs_page


def test_a_repeated_epoch_counts_as_it_went_the_last_time(run: Path) -> None:
    with (run / "events-0.jsonl").open("a") as file:
        file.write(json.dumps({"event": "epoch", "epoch": 5, "loss": 42.0}) + "\n")
    assert dict(series.losses(read_run(run)))[5] == 42.0


@pytest.mark.parametrize("make", [False, True])
def test_what_is_no_run_folder_is_refused(tmp_path: Path, make: bool) -> None:
    folder = tmp_path / "nothing"
    if make:
        folder.mkdir()
    with pytest.raises(InputError, match="halowire train --out"):
        read_run(folder)


def test_the_newest_epoch_of_a_file_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "events-0.jsonl"
    assert last_epoch(path) is None
    path.write_text('{"event":"start","time":1}\n')
    assert last_epoch(path) is None
    lines = [json.dumps({"event": "epoch", "epoch": epoch, "much": "x" * 500}) for epoch in range(100)]
    path.write_text("\n".join(lines) + '\n{"event":"epoch","epo')
    assert last_epoch(path) == 99
    path.write_text("\n".join([*lines, '{"event":"end","status":"finished"}']) + "\n")
    assert last_epoch(path) == 99


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


@pytest.mark.parametrize("epoch", [-1, 10**300, 1e300])
def test_an_epoch_that_no_run_can_have_is_not_read(tmp_path: Path, epoch: float) -> None:
    path = tmp_path / "events-0.jsonl"
    path.write_text("".join(json.dumps({"event": "epoch", "epoch": number}) + "\n" for number in (0, epoch)))
    events = read_rank(path, 0)
    assert (list(events.epochs), events.unreadable, last_epoch(path)) == ([0], 1, 0)
