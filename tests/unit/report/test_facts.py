"""The facts worked out from a run, whole or killed; what to beware of; how runs are told apart."""

from __future__ import annotations

import json
import math
from pathlib import Path

from halowire.report import read_run
from halowire.report.facts import facts, notes, shown_runs
from halowire.report.run_files import RunFiles
from tests.support.fake_run import rewrite, write_run


def notes_of(run: Path) -> list[str]:
    return notes(shown_runs([read_run(run)])[0])


def test_a_killed_run_has_facts_and_says_what_is_missing(run: Path) -> None:
    (run / "summary.json").unlink()
    (run / "events-1.jsonl").unlink()
    lines = (run / "events-0.jsonl").read_text().splitlines()[:30]
    (run / "events-0.jsonl").write_text("\n".join(lines) + '\n{"event":"epo')
    found = read_run(run)
    known = facts(found)
    assert known["graph"] == "debian" and known["workers"] == 2 and known["epochs"] == 27
    assert 0 < known["test"] < 1 and known["best_epoch"] == 19 and known["epoch_seconds"] > 0
    told = " ".join(notes_of(run))
    for words in (
        "no summary.json",
        "broke off after 27 of 60 epochs",
        "events-1.jsonl",
        "1 of 2 workers",
        "1 line of",
    ):
        assert words in told


def test_a_loss_that_is_not_a_number_is_noted(run: Path) -> None:
    rewrite(run / "events-0.jsonl", lambda event: {**event, "loss": None} if event.get("epoch", 0) > 40 else event)
    assert "The loss was not a number in epoch 41, and in 18 later ones" in " ".join(notes_of(run))


def test_a_stopped_run_and_partition_warnings_are_noted(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    summary["status"] = "stopped"
    summary["partition"]["warnings"] = ["no training node in part 1"]
    (run / "summary.json").write_text(json.dumps(summary))
    assert notes_of(run) == [
        "The run was stopped after 60 epochs.",
        "no training node in part 1",
    ]


def test_a_good_run_needs_no_notes(run: Path) -> None:
    assert notes_of(run) == []


def test_the_summary_wins_over_the_events_but_not_with_nothing(run: Path) -> None:
    (run / "summary.json").write_text(json.dumps({"test": 0.5, "epoch_seconds": None, "best_epoch": -1}))
    known = facts(read_run(run))
    assert known["test"] == 0.5 and math.isfinite(known["epoch_seconds"]) and known["best_epoch"] is None


def names(runs: list[RunFiles]) -> tuple[list[str], list[str]]:
    shown = shown_runs(runs)
    return [one.label for one in shown], [one.group for one in shown]


def test_labels_are_as_short_as_they_tell_runs_apart(tmp_path: Path) -> None:
    runs = [
        read_run(write_run(tmp_path / str(i), recipe, seed=i, epochs=2)) for i, recipe in enumerate(("exact", "varco"))
    ]
    assert names(runs) == (["exact", "varco"], ["exact", "varco"])
    seeds = [read_run(write_run(tmp_path / f"seed{seed}", seed=seed, epochs=2)) for seed in (3, 4)]
    assert names(seeds) == (["exact seed 3", "exact seed 4"], ["exact", "exact"])
    assert names([seeds[0], seeds[0]])[0] == ["seed3 (1)", "seed3 (2)"]
