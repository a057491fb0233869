"""The pipeline in the report: its drawing, its numbers, its Chrome trace."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fake_pipeline import LATE, WORK, write_pipeline
from fake_run import write_run
from test_report_page import page

from halowire.report.pipeline_section import HAIR, MOST_ROWS, merged
from halowire.report.run import read_run
from halowire.report.spans import Row, Span, timelines


def section(text: str) -> str:
    """The pipeline's section of a page."""
    found = re.search(r"<h2>The pipeline</h2>(.*?)<h2", text, re.S)
    return found[1] if found else ""


def test_a_box_for_every_chunk_of_every_worker_at_its_time(tmp_path: Path) -> None:
    drawn = section(page([write_pipeline(tmp_path / "run")], tmp_path / "report.html"))
    boxes = re.findall(r'<rect class="span (\w+)" x="([\d.]+)%" y="([\d.]+)" width="([\d.]+)%"', drawn)
    steps = 2 * (8 + 1)
    found = {(kind, float(y), round(float(x) * steps / 100, 2)) for kind, x, y, _ in boxes}
    expected = set()
    for stage, y in enumerate((22.0, 73.0)):
        expected |= {("forward", y, float(stage + place)) for place in range(8)}
        expected |= {("backward", y, float(9 + 1 - stage + place)) for place in range(8)}
    expected |= {("wait", 73.0, 0.0), ("wait", 22.0, 9.0)}
    assert found == expected
    widths = {kind: round(float(width) * steps / 100, 2) for kind, _, _, width in boxes}
    assert widths == {"forward": 0.9, "backward": 0.9, "wait": 1.0}


def test_the_bubble_stands_next_to_the_formula(tmp_path: Path) -> None:
    run = write_pipeline(tmp_path / "run", stages=4, parts=2, chunks=16)
    said = re.sub(r"<[^>]+>", "|", section(page([run], tmp_path / "report.html")))
    assert "is 15.8% in the mean; (S\u22121)/(C+S\u22121)" in said and "transfer, is 15.8%." in said
    assert "Strips inside the boxes are waits for halo rows." in said
    assert said.count("|bubble 15.8%|") == 8, "also of stages that are done before the first one"
    assert "worker 3: stage 1, part 1|" in said and "worker 3: stage 1, part 1, layers 5 to 8: forward" in said
    seconds = 2 * 16 * 0.9 * WORK / 2
    row = re.search(r"\|0\|+0\|+0\|+1 to 4\|([^\n]*?)15.8%\|+15.8%", said)
    assert row and [cell for cell in row[1].split("|") if cell] == [
        f"{seconds:.2f} s", f"{seconds:.2f} s", "30.0 ms", f"{32 * LATE * 1e3:.1f} ms", "32.0 ms",
    ]  # fmt: skip


def test_workers_are_in_the_order_of_parts_then_stages(tmp_path: Path) -> None:
    rows = timelines(read_run(write_pipeline(tmp_path / "run", stages=2, parts=2)))
    assert [(row.part, row.stage, row.rank) for row in rows] == [(0, 0, 0), (0, 1, 2), (1, 0, 1), (1, 1, 3)]


def test_many_workers_are_drawn_in_part_and_listed_in_full(tmp_path: Path) -> None:
    drawn = section(page([write_pipeline(tmp_path / "run", stages=20, chunks=4)], tmp_path / "report.html"))
    assert f"{MOST_ROWS} of 20" in drawn and drawn.count('class="name"') == MOST_ROWS
    assert len(re.findall(r"<tr><th scope=\"row\">", drawn)) == 20


def test_no_timeline_no_section_and_no_trace(run: Path) -> None:
    assert "The pipeline" not in page([run], run / "report.html")
    assert not (run / "report.trace.json").exists()


def test_several_runs_have_none_of_it(tmp_path: Path) -> None:
    runs = [write_pipeline(tmp_path / "pipe"), write_run(tmp_path / "exact")]
    text = page(runs, tmp_path / "both.html")
    assert "The pipeline" not in text and "Halo rows and rows between stages" in text
    assert not (tmp_path / "both.trace.json").exists()


@pytest.mark.parametrize(
    "broken",
    [
        {"spans": None}, {"spans": [["forward", 0, -1, 1.0]]}, {"spans": [["sleep", 0, -1, 0.0, 1.0]]},
        {"spans": [["forward", 0, -1, 2.0, 1.0]]}, {"spans": [["forward", "x", -1, 0.0, None], 3]},
        {"stage": None}, {"ideal_bubble": None},
    ],
)  # fmt: skip
def test_timelines_that_cannot_be_read_are_left_out(tmp_path: Path, broken: dict[str, object]) -> None:
    run = write_pipeline(tmp_path / "run")
    path = run / "events-1.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    changed = [event | broken if event["event"] == "timeline" else event for event in events]
    path.write_text("".join(json.dumps(event) + "\n" for event in changed))
    drawn = section(page([run], tmp_path / "report.html"))
    assert "worker 0:" in drawn and "worker 1:" not in drawn


def test_the_trace_holds_every_span_in_microseconds(tmp_path: Path) -> None:
    run = write_pipeline(tmp_path / "run", parts=2)
    page([run], tmp_path / "here.html")
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


def test_spans_closer_than_a_hair_are_drawn_as_one() -> None:
    times = [(0.0, 0.1), (0.1 + HAIR / 2, 0.2), (0.3, 0.3 + HAIR / 2), (0.5, 0.6)]
    spans = tuple(Span("exchange", 0, 1, start, end) for start, end in times)
    row = Row(0, 0, 0, 2, 0.0, (*spans, Span("forward", 0, -1, 0.0, 1.0)))
    assert merged("exchange", row, 1.0) == [(0.0, 0.2), (0.5, pytest.approx(0.1))]


def test_stage_bytes_and_errors_are_drawn_apart(tmp_path: Path) -> None:
    text = page([write_pipeline(tmp_path / "run", parts=2)], tmp_path / "report.html")
    for name in ("stage forward", "stage backward"):
        assert f"<h3>Error of the code, {name}</h3>" in text
    assert "rows between stages over their squared norm" in text
    wire = re.search(r"<h3>Bytes on the wire</h3>.*?</figure>", text, re.S)
    assert wire and "<td>31.2 KiB</td><td>39.1 KiB</td>" in wire[0], "8 halo messages and 2 links of 4 workers"
    assert "layer 4, backward" in text


def test_many_exchanges_are_summed_by_direction(tmp_path: Path) -> None:
    text = page([write_pipeline(tmp_path / "run", parts=2, layers=32)], tmp_path / "report.html")
    drawn = re.search(r"<h3>What was exchanged</h3>(.*?)<details>", text, re.S)
    assert drawn and "32 layers, forward" in drawn[1] and "1 layer, stage backward" in drawn[1]
    assert "125 KiB, waited 32.0 ms" in re.sub(r"<[^>]+>", "", drawn[1]) and "layer 7" not in drawn[1]
    assert "layer 7, backward" in text


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
