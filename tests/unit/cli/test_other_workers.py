"""`--resume` with another number of workers: the graph is cut again; shards of the user's own must fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from halowire.events import read_events
from tests.unit.cli.conftest import FAST, SMALL


def parts(shards: str) -> int:
    return int(json.loads(Path(shards, "manifest.json").read_text())["num_parts"])


@pytest.mark.slow
def test_the_run_is_cut_again_goes_on_and_predicts(halowire):
    assert halowire("train", SMALL, *FAST, "--out", "run", "--epochs", "2").code == 0
    words = ("train", SMALL, *FAST, "--out", "run", "--resume", "--epochs", "4")
    said = halowire(*words, "--workers", "2")
    assert said.code == 0, said.err
    assert parts("run/shards") == 2 and json.loads(Path("run/config.json").read_text())["run"]["workers"] == 2
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["workers"] == 2 and summary["epochs"] == 4
    told = [event for event in read_events(Path("run/events-0.jsonl")) if event["event"] == "recut"]
    assert [(event["before"], event["workers"], event["epoch"]) for event in told] == [(1, 2, 2)]
    assert "instead of 1 workers" in Path("run/report.html").read_text()
    assert halowire("predict", "run", "--out", "out.npy").code == 0
    said = halowire("train", SMALL.replace("60", "61"), *FAST, "--out", "run", "--resume", "--epochs", "6")
    assert said.code == 2 and "the graph's size" in said.err, said.err
    assert parts("run/shards") == 2, "the shards stay as they were"


def test_shards_of_the_users_own_must_have_as_many_parts(halowire):
    for count in ("1", "2"):
        assert halowire("partition", SMALL, "--parts", count, "--out", f"shards-{count}", "--quiet").code == 0
    assert halowire("train", "shards-1", *FAST, "--out", "run", "--epochs", "2").code == 0
    said = halowire("train", "shards-1", *FAST, "--out", "run", "--resume", "--epochs", "3", "--workers", "2")
    assert said.code == 2 and "holds 1 shards" in said.err and "give the graph itself" in said.err
    said = halowire("train", "shards-2", *FAST, "--out", "run", "--resume", "--epochs", "3", "--workers", "2")
    assert said.code == 0, said.err
    assert halowire("train", SMALL, *FAST, "--out", "run", "--resume", "--epochs", "4").code == 0
    assert parts("run/shards") == 1 and json.loads(Path("run/summary.json").read_text())["epochs"] == 4
