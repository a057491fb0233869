"""Reading run folders, whole and damaged, and the facts worked out from them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_run import write_run

from halowire.kernels.errors import InputError
from halowire.report import series
from halowire.report.facts import facts, groups, labels, notes
from halowire.report.run import read_run
from halowire.report.settings import by_group, command


def rewrite(path: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Change or drop the events of a file."""
    events = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(event) + "\n" for event in events if event is not None))


def test_curves_combine_the_ranks(run: Path) -> None:
    found = read_run(run)
    assert [rank.rank for rank in found.ranks] == [0, 1]
    assert found.epochs() == list(range(60))
    first = [rank.epochs[0] for rank in found.ranks]
    assert series.wire_bytes(found)[0] == (0, sum(event["wire_bytes"] for event in first))
    assert series.seconds(found)[0] == (0, max(event["seconds"] for event in first))
    assert [epoch for epoch, _ in series.metrics(found, "val")] == [9, 19, 29, 39, 49, 59]


def test_phases_add_up_to_the_epoch_and_leave_the_first_one_out(run: Path) -> None:
    rank = read_run(run).ranks[1]
    steady = [event["seconds"] for epoch, event in rank.epochs.items() if epoch > 0]
    assert sum(series.mean_phases(rank).values()) == pytest.approx(sum(steady) / len(steady), rel=1e-3)


def test_waiting_is_for_halo_rows_and_weight_gradients(run: Path) -> None:
    found = read_run(run)
    phases = [rank.epochs[7]["phases"] for rank in found.ranks]
    assert dict(series.waits(found))[7] == pytest.approx(sum(one["wait"] + one["reduce"] for one in phases) / 2)


def test_time_that_no_phase_claims_is_other(run: Path) -> None:
    rewrite(run / "events-0.jsonl", lambda event: {**event, "seconds": 1.0} if event["event"] == "epoch" else event)
    phases = series.mean_phases(read_run(run).ranks[0])
    assert sum(phases.values()) == pytest.approx(1.0) and phases["other"] > 0.3


def test_exchanges_are_summed_over_ranks(run: Path) -> None:
    totals = series.exchange_totals(read_run(run))
    assert [row[:2] for row in totals] == [(1, "forward"), (2, "forward"), (1, "backward"), (2, "backward")]
    assert sum(row[2] for row in totals) == pytest.approx(12_900_000, rel=1e-3)


def test_a_killed_run_has_facts_and_says_what_is_missing(run: Path) -> None:
    (run / "summary.json").unlink()
    (run / "events-1.jsonl").unlink()
    lines = (run / "events-0.jsonl").read_text().splitlines()[:30]
    (run / "events-0.jsonl").write_text("\n".join(lines) + '\n{"event":"epo')
    found = read_run(run)
    known = facts(found)
    assert known["graph"] == "debian" and known["workers"] == 2 and known["epochs"] == 27
    assert 0 < known["test"] < 1 and known["best_epoch"] == 19 and known["epoch_seconds"] > 0
    told = " ".join(notes(found))
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
    assert "The loss was not a number in epoch 41, and in 18 later ones" in " ".join(notes(read_run(run)))


def test_a_stopped_run_and_partition_warnings_are_noted(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    summary["status"] = "stopped"
    summary["partition"]["warnings"] = ["no training node in part 1"]
    (run / "summary.json").write_text(json.dumps(summary))
    assert notes(read_run(run)) == ["The run was stopped after 60 epochs.", "no training node in part 1"]


def test_a_good_run_needs_no_notes(run: Path) -> None:
    assert notes(read_run(run)) == []


def test_the_summary_wins_over_the_events_but_not_with_nothing(run: Path) -> None:
    (run / "summary.json").write_text(json.dumps({"test": 0.5, "epoch_seconds": None, "best_epoch": -1}))
    known = facts(read_run(run))
    assert known["test"] == 0.5 and math.isfinite(known["epoch_seconds"]) and known["best_epoch"] is None


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


def test_labels_are_as_short_as_they_tell_runs_apart(tmp_path: Path) -> None:
    runs = [
        read_run(write_run(tmp_path / str(i), recipe, seed=i, epochs=2)) for i, recipe in enumerate(("exact", "varco"))
    ]
    assert labels(runs) == ["exact", "varco"]
    seeds = [read_run(write_run(tmp_path / f"seed{seed}", seed=seed, epochs=2)) for seed in (3, 4)]
    assert labels(seeds) == ["exact seed 3", "exact seed 4"]
    assert groups(seeds, labels(seeds)) == ["exact", "exact"]
    assert groups(runs, labels(runs)) == ["exact", "varco"]
    assert labels([seeds[0], seeds[0]]) == ["seed3 (1)", "seed3 (2)"]


def test_the_command_spells_every_setting_out(run: Path) -> None:
    line = command(read_run(run)).replace(" \\\n ", "")
    assert line.startswith("halowire train debian --recipe exact --workers 2 ")
    for flag in ("--epochs 60", "--early-stop 0", "--model.hidden 128", "--optim.weight-decay 0.0", "--eval.every 10"):
        assert f" {flag}" in line
    assert all(len(part) < 110 for part in command(read_run(run)).splitlines())
    assert "--run." not in line and "inductive" not in line


def test_settings_come_in_groups(run: Path) -> None:
    found = dict(by_group(read_run(run).config))
    assert (
        ("hidden", "128") in found["model"] and ("seed", "0") in found["run"] and ("inductive", "no") in found["task"]
    )
