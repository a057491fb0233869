"""Stages on the command line: train with two of them, go on, predict, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from halowire.events import read_events
from halowire.training.checkpoint import Manifest
from halowire.wire import HEADER_BYTES
from tests.unit.cli.conftest import FAST, SMALL

FOUR = ("--model.name", "gcnii", "--model.layers", "4", "--mesh.split", "2,2")
DEEP = (*FAST, "--model.name", "gcnii", "--model.layers", "4", "--workers", "2", "--mesh.stages", "2")
HEADERS = 2 * 2 * 8 * HEADER_BYTES
"""Both ways, each of eight chunks crosses the border with its rows and its initial rows."""


def test_train_with_two_stages_then_predict(halowire):
    said = halowire("train", SMALL, *DEEP, "--epochs", "4", "--out", "run")
    assert said.code == 0, said.err
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["mesh"] == {"stages": 2, "parts": 1, "chunks": 8}
    assert summary["stage_bytes_per_epoch"] == 2 * 2 * 60 * 8 * 4 + HEADERS == summary["wire_bytes_per_epoch"]
    assert summary["halo_bytes_per_epoch"] == 0 and summary["model"] == "gcnii"
    assert halowire("predict", "run", "--out", "two.npy").code == 0
    assert np.load("two.npy").shape == (60, 3)
    events = read_events(Path("run/events-1.jsonl"))
    epochs = [event for event in events if event["event"] == "epoch"]
    assert [event["stage_bytes"] for event in epochs] == [2 * 60 * 8 * 4 + HEADERS // 2] * 4
    assert {item["direction"] for item in epochs[0]["exchanges"]} == {"stage forward", "stage backward"}
    timelines = [event for event in events if event["event"] == "timeline"]
    assert [event["epoch"] for event in timelines] == [0, 1, 2], "the last one is shown"
    timeline = timelines[-1]
    assert timeline["layers"] == [3, 4] and {span[0] for span in timeline["spans"]} == {
        "forward", "backward", "wait", "transfer",
    }  # fmt: skip
    assert timeline["ideal_bubble"] == 1 / 9
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


@pytest.mark.slow
def test_a_short_run_has_the_timeline_of_its_last_epoch(halowire):
    assert halowire("train", SMALL, *DEEP, "--epochs", "1", "--out", "run").code == 0
    assert [e["epoch"] for e in read_events(Path("run/events-0.jsonl")) if e["event"] == "timeline"] == [0]


@pytest.mark.slow
def test_a_run_of_stages_goes_on(halowire):
    deep = (*DEEP, "--eval.every", "3")
    assert halowire("train", SMALL, *deep, "--epochs", "6", "--out", "straight").code == 0
    assert halowire("train", SMALL, *deep, "--epochs", "3", "--out", "run").code == 0
    assert halowire("train", SMALL, *deep, "--epochs", "6", "--out", "run", "--resume").code == 0
    for run in ("run", "straight"):
        assert halowire("predict", run, "--out", f"{run}.npy").code == 0
    np.testing.assert_array_equal(np.load("run.npy"), np.load("straight.npy"))


@pytest.mark.slow
def test_a_run_goes_on_with_the_split_that_was_measured(halowire):
    """Costs measured a second time would be others; the blocks stay where their historical rows are."""
    deep = (*DEEP, "--mesh.costs", "measured", "--mesh.chunks", "1", "--out", "run")
    assert halowire("train", SMALL, *deep, "--epochs", "2").code == 0
    folder = Path("run/checkpoints/epoch-000002")
    manifest = Manifest.read(folder)
    assert sum(manifest.settings["split"]) == 4
    manifest.settings["split"] = [3, 1]  # no measurement of four equal layers would say so
    (folder / "manifest.json").write_bytes(manifest.to_bytes())
    assert halowire("train", SMALL, *deep, "--epochs", "4", "--resume").code == 0
    for rank in (0, 1):
        starts = [e["split"] for e in read_events(Path(f"run/events-{rank}.jsonl")) if e["event"] == "start"]
        assert starts[-1] == [3, 1]
    assert halowire("predict", "run", "--out", "out.npy").code == 0


def test_too_many_chunks_are_refused_before_an_earlier_run_is_deleted(halowire):
    assert halowire("train", SMALL, *DEEP, "--out", "run").code == 0
    before = Path("run/summary.json").read_text()
    said = halowire("train", SMALL, *DEEP, "--mesh.chunks", "61", "--out", "run", "--overwrite")
    assert said.code == 2 and Path("run/summary.json").read_text() == before


@pytest.mark.slow
def test_the_last_of_two_recipes_counts(halowire):
    words = ("train", SMALL, *FAST, "--model.name", "gcnii", "--model.layers", "4", "--workers", "2", "--out", "run")
    assert halowire(*words, "--recipe", "gnnpipe", "--recipe=gnnpipe-1bit").code == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["recipe"] == "gnnpipe-1bit" and summary["wire_bytes_per_epoch"] == 2 * 2 * 60 * (1 + 4) + HEADERS


@pytest.mark.slow
def test_early_stopping_ends_all_stages_with_a_checkpoint(halowire):
    words = ("--epochs", "50", "--eval.every", "1", "--early-stop", "2", "--optim.lr", "1e-9", "--out", "run")
    assert halowire("train", SMALL, *DEEP, *words).code == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["status"] == "early-stopped" and summary["epochs"] < 50
    counts = [sum(e["event"] == "epoch" for e in read_events(Path(f"run/events-{rank}.jsonl"))) for rank in (0, 1)]
    assert counts == [summary["epochs"]] * 2
    assert halowire("predict", "run", "--out", "out.npy").code == 0


@pytest.mark.slow
def test_a_comparison_of_stages_and_parts(halowire):
    words = (*FAST, "--model.name", "gcnii", "--model.layers", "4", "--workers", "2", "--seeds", "1", "--out", "all")
    compare = ("compare", SMALL, "--recipes", "exact,gnnpipe,gnnpipe-1bit", *words)
    said = halowire(*compare)
    assert said.code == 0, said.err
    assert json.loads(Path("all/compare.json").read_text())["finished"]
    exact, full, coded = (
        json.loads(Path(f"all/{name}-seed0/summary.json").read_text())["wire_bytes_per_epoch"]
        for name in ("exact", "gnnpipe", "gnnpipe-1bit")
    )
    assert full == 2 * 2 * 60 * 8 * 4 + HEADERS and coded == 2 * 2 * 60 * (1 + 4) + HEADERS and exact > 0
    # Nothing is run again, and a run that is missing is.
    before = Path("all/gnnpipe-seed0/summary.json").stat().st_mtime_ns
    Path("all/gnnpipe-1bit-seed0/summary.json").unlink()
    assert halowire(*compare).code == 0
    assert Path("all/gnnpipe-seed0/summary.json").stat().st_mtime_ns == before
    assert json.loads(Path("all/gnnpipe-1bit-seed0/summary.json").read_text())["status"] == "finished"


@pytest.mark.slow
def test_a_budget_counts_the_bytes_between_stages(halowire):
    most = 2 * 2 * 60 * 8 * 4
    words = ("--epochs", "10", "--rate.schedule", "budget", "--rate.budget", 5 * most, "--out", "run")
    said = halowire("train", SMALL, *DEEP, *words)
    assert said.code == 0, said.err
    epochs = [e for rank in (0, 1) for e in read_events(Path(f"run/events-{rank}.jsonl")) if e["event"] == "epoch"]
    sent = sum(event["stage_bytes"] for event in epochs)
    assert 0.95 * 5 * most <= sent <= 1.05 * 5 * most
    assert len({event["stage_bytes"] for event in epochs}) > 2, "the share of the columns rises"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--mesh.stages", "3"), "2 workers cannot have --mesh.stages 3; possible stages x parts: 1 x 2, 2 x 1"),
        (("--mesh.stages", "2", "--model.layers", "1"), "2 stages cannot share 1 blocks"),
        (("--mesh.stages", "2", "--mesh.chunks", "61"), "use --mesh.chunks 1 to 60"),
        (("--mesh.stages", "2", "--rate.rows", "0.5"), "--rate.rows has no meaning between stages"),
        (("--recipe", "hybrid", "--mesh.parts", "4"), "a mesh of 2 workers cannot have --mesh.parts 4"),
        (("--mesh.stages", "2", "--rate.weights", "8"), "--rate.weights 8 has no effect with one part"),
        (
            ("--mesh.chunks", "2", "--rate.schedule", "budget", "--rate.budget", "1e6"),
            "--rate.schedule budget cannot plan halo rows that several parts exchange chunk by chunk",
        ),
        (("--mesh.stages", "2", "--rate.schedule", "budget", "--rate.budget", "10"), "2 epochs take from"),
        (("--mesh.stages", "2", "--rate.layers", "2:4", *FOUR), "with layer 3, the only one whose rows travel"),
        (("--mesh.stages", "2", "--rate.layer-ratios", "4:4", *FOUR), "layer 3, the only one whose rows travel"),
    ],
)
def test_impossible_meshes_are_refused(halowire, words, expected):
    said = halowire("train", SMALL, *FAST, "--workers", "2", "--out", "run", *words)
    assert said.code == 2 and expected in said.err and said.err.count("\n") == 1, said.err
