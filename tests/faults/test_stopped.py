"""Workers that do not answer: stopped ones are named, and a second Ctrl-C ends them whatever they do."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from tests.support.started import ENDLESS, TRAIN, children, ended, free_port, start, wait_for_epochs, wait_until_gone

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
TWO = (*TRAIN, "--workers", "2", *ENDLESS, "--out", "run")
HANGS = """
import ctypes, sys, threading
import halowire.launch.local as local

# After some epochs worker 1 calls a function of the C library that does not return, and keeps Python's lock: no handler
# can run there.
local.START = local.START.replace("main()\\n", '''
import ctypes, os, threading, time
from pathlib import Path
def hang():
    log = Path("run/events-1.jsonl")
    while not log.exists() or log.read_text().count('"event":"epoch"') < 5:
        time.sleep(0.05)
    Path("hanging").touch()
    ctypes.PyDLL(None).sleep(100000)
if os.environ["RANK"] == "1":
    threading.Thread(target=hang, daemon=True).start()
main()
''')
sys.argv[0] = "halowire"
from halowire.cli.main import main
sys.exit(main())
"""


def test_a_stopped_worker_is_named_and_ended_soon_after_the_deadline(tmp_path):
    process = start(tmp_path, *TWO, "--deadline", "5")
    wait_for_epochs(tmp_path / "run", 5, rank=1)
    workers = children(process)
    os.kill(workers[1], signal.SIGSTOP)
    begun = time.monotonic()
    code, said = ended(process)
    assert time.monotonic() - begun < 20
    assert code == 1 and "worker 1 did not answer: it is stopped" in said and "memory" not in said
    *_, warning, error = said.splitlines()
    assert warning.startswith("warning: rank 0 waits ") and error.startswith("halowire: error: ")
    wait_until_gone(workers)


@pytest.mark.slow
def test_a_stopped_worker_is_started_again(tmp_path):
    words = (*TRAIN, "--workers", "2", "--epochs", "300", "--out", "run", "--deadline", "5", "--max-restarts", "1")
    process = start(tmp_path, *words, "--checkpoint.every", "5")
    wait_for_epochs(tmp_path / "run", 12, rank=1)
    os.kill(children(process)[1], signal.SIGSTOP)
    code, said = ended(process, 90)
    assert code == 0 and "all were started again (1), going on after epoch" in said


@pytest.mark.slow
def test_ctrl_c_continues_a_stopped_worker_so_that_the_run_ends_with_a_checkpoint(tmp_path):
    process = start(tmp_path, *TWO)
    wait_for_epochs(tmp_path / "run", 5, rank=1)
    os.kill(children(process)[1], signal.SIGSTOP)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    code, said = ended(process)
    assert code == 130 and said.startswith("halowire: stopped with a checkpoint after epoch ")


def test_the_second_ctrl_c_ends_workers_that_hang_or_are_stopped(tmp_path):
    (tmp_path / "hangs.py").write_text(HANGS)
    process = start(tmp_path, *TWO, launcher=("hangs.py",))
    wait_for_epochs(tmp_path / "run", 5, rank=1)
    workers = children(process)
    end = time.monotonic() + 60
    while not (tmp_path / "hanging").exists():
        assert time.monotonic() < end, "worker 1 does not hang"
        time.sleep(0.05)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    time.sleep(2)
    assert process.poll() is None, "it waits for the last epoch"
    os.kill(workers[0], signal.SIGSTOP)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, said = ended(process)
    assert time.monotonic() - begun < 5
    assert code == 130 and said.startswith("halowire: stopped ") and said.count("\n") == 1, said
    wait_until_gone(workers, 1)


@pytest.mark.slow
def test_the_second_ctrl_c_ends_a_worker_without_a_launcher_that_waits_for_a_stopped_one(tmp_path):
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    place |= {"LOCAL_RANK": "0", "HALOWIRE_TOKEN": "0123456789abcdef0123"}
    words = (*TRAIN, *ENDLESS, "--out", "run")
    first, second = (start(tmp_path, *words, place=place | {"RANK": rank}) for rank in "01")
    wait_for_epochs(tmp_path / "run", 5)
    second.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    first.send_signal(signal.SIGINT)
    time.sleep(1)
    assert first.poll() is None, "it waits for the last epoch"
    begun = time.monotonic()
    first.send_signal(signal.SIGINT)
    assert ended(first) == (130, "halowire: interrupted twice: ended at once\n")
    assert time.monotonic() - begun < 5
