"""Stages under torchrun, and interrupted: what graph parallelism does, the pipeline does too."""

from __future__ import annotations

import json
import os
import signal

import numpy as np

from tests.faults.test_launch import TORCHRUN
from tests.faults.test_signals import ENDLESS, weights
from tests.support.started import GRAPH, SETTINGS, children, ended, start, wait_for_epochs, wait_until_gone

STAGES = ("train", GRAPH, *SETTINGS, "--recipe", "gnnpipe", "--model.name", "gcnii", "--model.layers", "4")


def test_stages_under_torchrun(tmp_path):
    code, said = ended(start(tmp_path, *STAGES, "--epochs", "3", "--out", "run", launcher=TORCHRUN), 150)
    assert code == 0, said
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["mesh"] == {"stages": 2, "parts": 1, "chunks": 8} and summary["epochs"] == 3
    assert (tmp_path / "run/report.trace.json").exists()


def test_ctrl_c_stops_all_stages_with_a_checkpoint_and_resume_ends_like_an_uninterrupted_run(tmp_path):
    words = (*STAGES, "--workers", "2")
    process = start(tmp_path, *words, *ENDLESS, "--out", "cut")
    wait_for_epochs(tmp_path / "cut", 5)
    os.killpg(process.pid, signal.SIGINT)
    code, said = ended(process, 150)
    assert code == 130
    assert said.startswith("halowire: stopped with a checkpoint after epoch ") and said.count("\n") == 1
    epochs = str(json.loads((tmp_path / "cut/summary.json").read_text())["epochs"] + 5)
    both = [
        start(tmp_path, *words, "--epochs", epochs, "--out", "cut", "--resume"),
        start(tmp_path, *words, "--epochs", epochs, "--out", "whole"),
    ]
    assert [ended(process, 150) for process in both] == [(0, ""), (0, "")]
    resumed, whole = weights(tmp_path / "cut"), weights(tmp_path / "whole")
    assert resumed.keys() == whole.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(resumed[name], value, err_msg=name)


def test_a_killed_stage_ends_the_run_with_one_line(tmp_path):
    process = start(tmp_path, *STAGES, "--workers", "2", *ENDLESS, "--out", "run", "--checkpoint.every", "5")
    wait_for_epochs(tmp_path / "run", 6, rank=1)
    workers = children(process)
    os.kill(workers[0], signal.SIGKILL)
    code, said = ended(process)
    assert code == 1 and said.count("\n") == 1, said
    assert "was killed by SIGKILL" in said and "--resume --out run goes on" in said
    wait_until_gone(workers)
