"""Timelines: a box for every chunk at its time, close spans as one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from halowire.report.charts.bars import HAIR, merged
from halowire.report.run_files import Span, WorkerTimeline
from tests.support.fake_pipeline import write_pipeline
from tests.support.pages import runs_page, section


def test_a_box_for_every_chunk_of_every_worker_at_its_time(tmp_path: Path) -> None:
    drawn = section(runs_page([write_pipeline(tmp_path / "run")], tmp_path / "report.html"), "The pipeline")
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


def test_spans_closer_than_a_hair_are_drawn_as_one() -> None:
    times = [(0.0, 0.1), (0.1 + HAIR / 2, 0.2), (0.3, 0.3 + HAIR / 2), (0.5, 0.6)]
    spans = tuple(Span("exchange", 0, 1, start, end) for start, end in times)
    row = WorkerTimeline(0, 0, 0, 2, 0.0, (*spans, Span("forward", 0, -1, 0.0, 1.0)))
    assert merged("exchange", row, 1.0) == [(0.0, 0.2), (0.5, pytest.approx(0.1))]
