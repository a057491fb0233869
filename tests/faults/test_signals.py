"""Ctrl-C, SIGTERM and killed workers: a run ends soon, says why in one line, and goes on as if nothing had been."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from halowire.launch.local import START
from tests.support.started import (
    ENDLESS,
    STAGES,
    TRAIN,
    children,
    ended,
    start,
    wait_for_epochs,
    wait_until_gone,
    weights,
)

TWO = (*TRAIN, "--workers", "2")
STAGED = pytest.param(STAGES, marks=pytest.mark.slow)
BOTH = pytest.mark.parametrize("words", [TRAIN, STAGED], ids=["boundary first", "stages"])


@BOTH
def test_ctrl_c_stops_with_a_checkpoint_and_resume_ends_like_an_uninterrupted_run(tmp_path, words):
    words = (*words, "--workers", "2")
    process = start(tmp_path, *words, *ENDLESS, "--out", "cut")
    wait_for_epochs(tmp_path / "cut", 10)
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    code, said = ended(process)
    assert code == 130 and time.monotonic() - begun < 20
    assert said.startswith("halowire: stopped with a checkpoint after epoch ") and said.count("\n") == 1
    epochs = str(json.loads((tmp_path / "cut/summary.json").read_text())["epochs"] + 9)
    both = [
        start(tmp_path, *words, "--epochs", epochs, "--out", "cut", "--resume"),
        start(tmp_path, *words, "--epochs", epochs, "--out", "whole"),
    ]
    assert [ended(process, 150) for process in both] == [(0, ""), (0, "")]
    resumed, whole = weights(tmp_path / "cut"), weights(tmp_path / "whole")
    assert resumed.keys() == whole.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(resumed[name], value, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_to_the_parent_stops_with_a_checkpoint(tmp_path, workers):
    process = start(tmp_path, *TRAIN, "--workers", str(workers), *ENDLESS, "--out", "run")
    wait_for_epochs(tmp_path / "run", 3)
    process.send_signal(signal.SIGTERM)
    code, said = ended(process)
    assert code == 130 and "with a checkpoint" in said and said.count("\n") == 1
    assert len(list((tmp_path / "run/checkpoints").iterdir())) == 1


@pytest.mark.slow
def test_a_killed_worker_is_started_again_from_the_checkpoint(tmp_path):
    process = start(tmp_path, *TWO, "--epochs", "400", "--out", "run", "--checkpoint.every", "5", "--max-restarts", "1")
    wait_for_epochs(tmp_path / "run", 12, rank=1)
    os.kill(children(process)[1], signal.SIGKILL)
    code, said = ended(process, 90)
    assert code == 0 and "a worker failed; all were started again (1), going on after epoch" in said
    assert json.loads((tmp_path / "run/summary.json").read_text())["epochs"] == 400


@BOTH
def test_a_killed_worker_ends_the_run_with_one_line(tmp_path, words):
    process = start(tmp_path, *words, "--workers", "2", *ENDLESS, "--out", "run", "--checkpoint.every", "5")
    wait_for_epochs(tmp_path / "run", 12, rank=1)
    workers = children(process)
    os.kill(workers[1 if words == TRAIN else 0], signal.SIGKILL)
    code, said = ended(process)
    assert code == 1 and said.count("\n") == 1, said
    assert "was killed by SIGKILL" in said and "--resume --out run goes on" in said
    wait_until_gone(workers)


def test_workers_do_not_outlive_a_killed_launcher_and_leave_a_checkpoint(tmp_path):
    process = start(tmp_path, *TWO, *ENDLESS, "--out", "run")
    wait_for_epochs(tmp_path / "run", 3, rank=1)
    workers = children(process)
    assert len(workers) == 2
    process.kill()
    wait_until_gone(workers)
    process.communicate()
    assert len(list((tmp_path / "run/checkpoints").iterdir())) == 1
    epochs = json.loads((tmp_path / "run/summary.json").read_text())["epochs"]
    code, said = ended(start(tmp_path, *TWO, "--epochs", str(epochs + 2), "--out", "run", "--resume"))
    assert (code, said) == (0, "")


def test_a_worker_whose_launcher_died_before_it_began_ends_at_once(tmp_path):
    first = START.replace("MODULE", "nothing").replace("LAUNCHER", "1000000000")
    assert subprocess.run([sys.executable, "-c", first], check=False).returncode == 130


@pytest.mark.slow
def test_ctrl_c_before_the_first_epoch_is_one_line(tmp_path):
    process = start(tmp_path, *TWO, *ENDLESS, "--out", "run")
    while not children(process):
        time.sleep(0.02)
    time.sleep(0.5)  # the interpreter itself needs a moment before anybody can catch a signal
    os.killpg(process.pid, signal.SIGINT)
    code, said = ended(process)
    assert code == 130 and said.startswith("halowire: stopped before the first checkpoint") and said.count("\n") == 1
