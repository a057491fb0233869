"""The top of a page: the headline of one run and of several, and how a run ended."""

from __future__ import annotations

import json
from pathlib import Path

from halowire.report import read_run
from halowire.report.facts import ShownRun, shown_runs
from halowire.report.sections import headline, subtitle, when_and_how_it_ended
from tests.support.fake_run import write_run
from tests.support.pages import words_of


def shown(*folders: Path) -> list[ShownRun]:
    return shown_runs([read_run(folder) for folder in folders])


def test_the_headline_of_several_runs_has_ranges(tmp_path: Path) -> None:
    runs = shown(*(write_run(tmp_path / recipe, recipe) for recipe in ("exact", "sylvie-s")))
    said = "2 runs on debian: 77.6% to 78.1% test accuracy, 0.31 s to 0.42 s per epoch, 547 KiB to 12.3 MiB on the wire"
    assert words_of(headline(runs)) == f"{said} per epoch"


def test_what_is_unknown_is_not_in_the_headline(run: Path) -> None:
    (run / "summary.json").unlink()
    (run / "events-0.jsonl").write_text((run / "events-0.jsonl").read_text().splitlines()[0] + "\n")
    (run / "events-1.jsonl").unlink()
    assert headline(shown(run)) == "debian, 2 workers, exact"


def test_how_a_run_ended(run: Path) -> None:
    one = shown(run)[0]
    assert when_and_how_it_ended(one) == "2026-09-21 14:13 UTC, took 34.0 s, finished"
    assert subtitle(one).startswith("63,620 nodes, 564,218 edges, 1,000 features, 31 classes, model sage, seed 0")
    summary = json.loads((run / "summary.json").read_text()) | {"status": "early-stopped"}
    (run / "summary.json").write_text(json.dumps(summary))
    assert when_and_how_it_ended(shown(run)[0]).endswith("stopped early (--early-stop)")
