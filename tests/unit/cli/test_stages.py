"""Stages on the command line: train with two of them, go on, predict, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from halowire.events import read_events
from tests.unit.cli.conftest import FAST, SMALL

DEEP = (*FAST, "--model.name", "gcnii", "--model.layers", "4", "--workers", "2", "--mesh.stages", "2")


def test_train_with_two_stages_then_predict(halowire):
    said = halowire("train", SMALL, *DEEP, "--epochs", "4", "--out", "run")
    assert said.code == 0, said.err
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["mesh"] == {"stages": 2, "parts": 1, "chunks": 8}
    assert summary["stage_bytes_per_epoch"] == 2 * 2 * 60 * 8 * 4 == summary["wire_bytes_per_epoch"]
    assert summary["halo_bytes_per_epoch"] == 0 and summary["model"] == "gcnii"
    assert halowire("predict", "run", "--out", "two.npy").code == 0
    assert np.load("two.npy").shape == (60, 3)
    events = read_events(Path("run/events-1.jsonl"))
    epochs = [event for event in events if event["event"] == "epoch"]
    assert [event["stage_bytes"] for event in epochs] == [2 * 60 * 8 * 4] * 4
    assert {item["direction"] for item in epochs[0]["exchanges"]} == {"stage forward", "stage backward"}
    timeline = next(event for event in events if event["event"] == "timeline")
    assert timeline["epoch"] == 2 and {span[0] for span in timeline["spans"]} == {
        "forward", "backward", "wait", "transfer",
    }  # fmt: skip
    assert 0 < timeline["bubble"] < 1 and timeline["ideal_bubble"] == 1 / 9
    assert "The pipeline" in Path("run/report.html").read_text()
    assert json.loads(Path("run/report.trace.json").read_text())["traceEvents"]
    # The same weights give the same logits in one process: evaluation and predictions are exact on any mesh.
    text = Path("run/config.json").read_text()
    values = json.loads(text)
    values["mesh"] |= {"stages": 1, "parts": 1, "chunks": 1}
    values["run"]["workers"] = 1
    Path("run/config.json").write_text(json.dumps(values))
    assert halowire("predict", "run", "--out", "one.npy").code == 0
    one, two = np.load("one.npy"), np.load("two.npy")
    assert np.abs(one - two).max() <= 1e-4 * np.abs(one).max()


def test_a_short_run_has_the_timeline_of_its_last_epoch(halowire):
    assert halowire("train", SMALL, *DEEP, "--epochs", "1", "--out", "run").code == 0
    assert [e["epoch"] for e in read_events(Path("run/events-0.jsonl")) if e["event"] == "timeline"] == [0]


def test_a_run_of_stages_goes_on(halowire):
    deep = (*DEEP, "--eval.every", "3")
    assert halowire("train", SMALL, *deep, "--epochs", "6", "--out", "straight").code == 0
    assert halowire("train", SMALL, *deep, "--epochs", "3", "--out", "run").code == 0
    assert halowire("train", SMALL, *deep, "--epochs", "6", "--out", "run", "--resume").code == 0
    for run in ("run", "straight"):
        assert halowire("predict", run, "--out", f"{run}.npy").code == 0
    np.testing.assert_array_equal(np.load("run.npy"), np.load("straight.npy"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--mesh.stages", "3"), "do not fit 2 workers; possible stages x parts: 1 x 2, 2 x 1"),
        (("--mesh.stages", "2", "--model.layers", "1"), "2 stages cannot share 1 blocks"),
        (("--mesh.stages", "2", "--mesh.chunks", "61"), "the smallest part has 60 nodes"),
        (("--mesh.stages", "2", "--rate.rows", "0.5"), "--rate.rows has no meaning between stages"),
        (("--recipe", "hybrid", "--mesh.parts", "4"), "do not fit 2 workers"),
    ],
)
def test_impossible_meshes_are_refused(halowire, words, expected):
    said = halowire("train", SMALL, *FAST, "--workers", "2", "--out", "run", *words)
    assert said.code == 2 and expected in said.err and said.err.count("\n") == 1, said.err
