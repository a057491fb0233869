"""The depth benchmark: which runs count as diverged, and that short trials never pass for results."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from bench.depth.__main__ import finished, main, planned
from bench.depth.table import diverges, table
from bench.depth.tasks import GRAPHS


def run(*losses: float, blind: float = 3.0, diverged: bool = False) -> dict[str, Any]:
    return {
        "losses": list(losses), "blind_loss": blind, "diverged": diverged, "test": 0.5, "val": 0.5, "curve": [[5, 0.5]],
        "epochs": len(losses),
    }  # fmt: skip


FALLING = [4.0 * 0.9**epoch for epoch in range(40)]
TROUBLE = {
    "no number": run(4.0, 3.0, diverged=True),
    "nothing": run(),
    "above": run(*[4.0, 2.0, 2.0, *[4.5] * 6]),
    "times its least": run(*FALLING[:20], *[1.5] * 6),
    "shares of the classes": run(4.0, *[2.97] * 30),
}
FINE = {
    "falls": run(*FALLING),
    "noise next to zero": run(*FALLING, *[0.01] * 5, *[0.05] * 5),
    "one bad epoch": run(*FALLING[:20], 3.5, *[0.5] * 6),
    "short": run(4.0, 2.5, blind=3.5),
}


@pytest.mark.parametrize("case", TROUBLE)
def test_trouble_is_seen(case):
    assert diverges(TROUBLE[case])
    words = table({"ogbn-arxiv/gcnii/all three/0": TROUBLE[case]})
    assert "(1 diverged)" in words and "Runs that diverged" in words


@pytest.mark.parametrize("case", FINE)
def test_a_run_that_learns_is_none(case):
    assert not diverges(FINE[case]) and "No run diverged" in table({"ogbn-arxiv/gcnii/all three/0": FINE[case]})


def test_a_short_trial_is_no_result(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["depth", "--epochs", "2"])
    with pytest.raises(SystemExit):
        main()
    assert "--out" in capsys.readouterr().err
    for task, short in zip(planned([], [], 0), planned([], [], 2), strict=True):
        assert short.epochs == 2 == short.settings["epochs"] and task.epochs > 2
        assert not finished(task, {task.key: {"epochs": 2}}) and finished(task, {task.key: {"epochs": task.epochs}})


def test_runs_of_fewer_epochs_are_not_averaged_with_the_others():
    long, short = run(*FALLING) | {"test": 0.9}, run(*FALLING[:20]) | {"test": 0.5}
    keys = [f"amazon-computers/resgcn/{way}" for way in ("graph parallel/0", "graph parallel/1", "all three/0")]
    words = table(dict(zip(keys, (long, short, short), strict=True)))
    assert "| amazon-computers | 1 | 40 | 90.00 |" in words and "50.00" not in words
    other = table({keys[0]: long, "amazon-computers/gcnii/all three/0": short})
    assert "50.00" in other, "another model may be trained for less"


def test_the_known_trouble_is_given_time():
    arxiv = next(data for data in GRAPHS if data.name == "ogbn-arxiv")
    assert arxiv.longer["gcnii"] >= 120 > arxiv.epochs
    assert {way.name for way in arxiv.ways["gcnii"]} >= {"graph parallel", "all three", "hybrid"}
