"""The end of a terminal ends a run like SIGTERM, with a checkpoint; `nohup` keeps the run alive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.started import (
    ENDLESS,
    TORCHRUN,
    TRAIN,
    ended,
    start,
    wait_for_epochs,
    weights,
)

LOUD = tuple(word for word in TRAIN if word != "--quiet")
"""With the progress bar, which writes to the terminal all the time."""


@pytest.mark.parametrize(("workers", "number"), [(2, signal.SIGHUP), (1, signal.SIGQUIT)])
def test_the_signals_of_a_closed_terminal_stop_with_a_checkpoint(tmp_path, workers, number):
    process = start(tmp_path, *TRAIN, "--workers", str(workers), *ENDLESS, "--out", "run")
    wait_for_epochs(tmp_path / "run", 3)
    process.send_signal(number)
    code, said = ended(process)
    assert code == 130 and "stopped with a checkpoint after epoch" in said and said.count("\n") == 1
    assert weights(tmp_path / "run")


@pytest.mark.slow
def test_torchruns_workers_stop_with_a_checkpoint(tmp_path):
    process = start(tmp_path, *TRAIN, *ENDLESS, "--out", "run", launcher=TORCHRUN)
    wait_for_epochs(tmp_path / "run", 3)
    process.send_signal(signal.SIGHUP)
    assert ended(process)[0] != 0
    assert json.loads((tmp_path / "run/summary.json").read_text())["status"] == "stopped"
    assert weights(tmp_path / "run")


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_closing_the_terminal_itself(tmp_path, workers):
    """A real terminal whose other end goes away, while a progress bar writes to it."""
    ours, theirs = os.openpty()
    words = [sys.executable, "-m", "halowire", *LOUD, "--workers", str(workers), *ENDLESS, "--out", "run"]
    process = subprocess.Popen(
        ["setsid", "-c", *words], cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    os.close(theirs)
    os.set_blocking(ours, False)
    run = tmp_path / "run"
    end = time.monotonic() + 120
    try:
        while not (run / "events-0.jsonl").exists() or (run / "events-0.jsonl").read_text().count('"epoch"') < 20:
            assert time.monotonic() < end and process.poll() is None
            try:
                os.read(ours, 65536)
            except BlockingIOError:
                time.sleep(0.02)
        os.close(ours)
        assert process.wait(60) == 130
    finally:
        process.kill()
    assert json.loads((run / "summary.json").read_text())["status"] == "stopped"
    assert weights(run)


@pytest.mark.slow
def test_nohup_keeps_a_run_alive(tmp_path):
    process = start(tmp_path, *TRAIN, "--workers", "2", "--epochs", "60", "--out", "run", launcher=nohup(tmp_path))
    wait_for_epochs(tmp_path / "run", 3)
    process.send_signal(signal.SIGHUP)
    assert ended(process) == (0, "")


def nohup(folder: Path) -> tuple[str, ...]:
    """Words after the interpreter that start halowire with SIGHUP ignored, as nohup does."""
    script = folder / "nohup.py"
    script.write_text(
        "import signal, sys, runpy\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\nsys.argv[0] = 'halowire'\n"
        "runpy.run_module('halowire', run_name='__main__')\n"
    )
    return (str(script),)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_run_whose_output_is_closed_ends_well(tmp_path, workers):
    words = [sys.executable, "-m", "halowire", *LOUD, "--workers", str(workers), "--epochs", "3", "--out", "run"]
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *words]
    done = subprocess.run(
        shell, cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "run/summary.json").read_text())["epochs"] == 3
