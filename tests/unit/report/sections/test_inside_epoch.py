"""Inside an epoch: exchanges summed by direction, the pipeline's timeline with its bubble."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from halowire.report.sections.inside_epoch import MOST_LINES
from tests.support.fake_pipeline import LATE, WORK, write_pipeline
from tests.support.fake_run import write_run
from tests.support.pages import runs_page, section, words_of


def test_many_exchanges_are_summed_by_direction(tmp_path: Path) -> None:
    text = runs_page([write_pipeline(tmp_path / "run", parts=2, layers=32)], tmp_path / "report.html")
    drawn = re.search(r"<h3>What was exchanged</h3>(.*?)<details>", text, re.S)
    assert drawn and "32 layers, forward" in drawn[1] and "1 layer, stage backward" in drawn[1]
    assert "125 KiB, waited 32.0 ms" in words_of(drawn[1]) and "layer 7" not in drawn[1]
    assert "layer 7, backward" in text


def test_the_bubble_stands_next_to_the_formula(tmp_path: Path) -> None:
    run = write_pipeline(tmp_path / "run", stages=4, parts=2, chunks=16)
    said = words_of(section(runs_page([run], tmp_path / "report.html"), "The pipeline"), instead="|")
    assert "in work: 15.8% in the mean. " in said and "have (S\u22121)/(C+S\u22121) = 15.8%." in said
    assert "Strips inside the boxes are waits for halo rows." in said
    assert said.count("|bubble 15.8%|") == 8, "also of stages that are done before the first one"
    assert "worker 3: stage 1, part 1|" in said and "worker 3: stage 1, part 1, layers 5 to 8: forward" in said
    seconds = 2 * 16 * 0.9 * WORK / 2
    row = re.search(r"\|0\|+0\|+0\|+1 to 4\|([^\n]*?)15.8%\|+15.8%", said)
    assert row and [cell for cell in row[1].split("|") if cell] == [
        f"{seconds:.2f} s", f"{seconds:.2f} s", "30.0 ms", f"{32 * LATE * 1e3:.1f} ms", "32.0 ms",
    ]  # fmt: skip


def test_many_workers_are_drawn_in_part_and_listed_in_full(tmp_path: Path) -> None:
    run = write_pipeline(tmp_path / "run", stages=20, chunks=4)
    drawn = section(runs_page([run], tmp_path / "report.html"), "The pipeline")
    assert f"{MOST_LINES} of 20" in drawn and drawn.count('class="name"') == MOST_LINES
    assert len(re.findall(r"<tr><th scope=\"row\">", drawn)) == 20


def test_no_timeline_no_section_and_no_trace(run: Path) -> None:
    assert "The pipeline" not in runs_page([run], run / "report.html")
    assert not (run / "report.trace.json").exists()


def test_several_runs_have_none_of_it(tmp_path: Path) -> None:
    runs = [write_pipeline(tmp_path / "pipe"), write_run(tmp_path / "exact")]
    text = runs_page(runs, tmp_path / "both.html")
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
    drawn = section(runs_page([run], tmp_path / "report.html"), "The pipeline")
    assert "worker 0:" in drawn and "worker 1:" not in drawn
