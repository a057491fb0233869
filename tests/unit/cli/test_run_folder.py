"""The run folder: never overwritten by accident, resumed only as the same run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.unit.cli.conftest import FAST, SMALL


def test_a_run_is_not_overwritten_unless_asked(halowire):
    assert halowire("train", SMALL, *FAST, "--out", "run").code == 0
    said = halowire("train", SMALL, *FAST, "--out", "run")
    assert said.code == 2 and "--resume goes on with it, --overwrite deletes it" in said.err
    Path("run/notes.txt").write_text("mine")
    assert halowire("train", SMALL, *FAST, "--epochs", "1", "--out", "run", "--overwrite").code == 0
    assert json.loads(Path("run/summary.json").read_text())["epochs"] == 1
    assert [folder.name for folder in Path("run/checkpoints").iterdir()] == ["epoch-000001"]
    assert Path("run/notes.txt").read_text() == "mine", "what the run did not write stays"


def test_a_new_folder_is_found_without_out(halowire):
    for number in (1, 2):
        assert halowire("train", SMALL, *FAST).code == 0
        assert Path(f"runs/sbm-exact-{number}/report.html").exists()


def test_resume_refuses_another_run_and_leaves_the_old_one_alone(halowire):
    halowire("train", SMALL, *FAST, "--out", "run")
    before = Path("run/config.json").read_text()
    changes = {
        "the graph": ["train", SMALL.replace("60", "61"), *FAST],
        "--optim.clip": ["train", SMALL, *FAST, "--optim.clip", "2"],
        "--model.hidden": ["train", SMALL, *FAST, "--model.hidden", "9"],
        "--partition.method": ["train", SMALL, *FAST, "--partition.method", "random"],
    }
    for name, words in changes.items():
        said = halowire(*words, "--out", "run", "--resume")
        assert said.code == 2 and f"had {name} " in said.err and said.err.count("\n") == 1
    assert Path("run/config.json").read_text() == before


def test_a_resumed_run_equals_one_long_run(halowire):
    halowire("train", SMALL, *FAST, "--eval.every", "2", "--epochs", "5", "--out", "long")
    halowire("train", SMALL, *FAST, "--eval.every", "2", "--out", "short")
    said = halowire("train", SMALL, *FAST[:-1], "--eval.every", "2", "--epochs", "5", "--out", "short", "--resume")
    assert said.code == 0 and "going on after epoch 2" in said.out
    for run in ("long", "short"):
        halowire("predict", run, "--out", f"{run}.npy")
    np.testing.assert_array_equal(np.load("long.npy"), np.load("short.npy"))
