"""A native call in a child process gives the same numbers and errors, and an interruption ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from halowire.errors import WorkerError
from halowire.graph import block_model
from halowire.partitioning import metis, partition
from halowire.partitioning.in_child import in_child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no child")
HELD = """
import ctypes, signal
import numpy as np
from halowire.partitioning.in_child import in_child

def held():
    print("ready", flush=True)
    ctypes.PyDLL(None).sleep(60)  # holds Python's lock, as METIS does
    return np.zeros(1, dtype=np.int64)

try:
    in_child(held, 1)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_owners_from_a_child_are_the_same(monkeypatch):
    graph = block_model(300, 2000, 4, 3, seed=1)
    here = partition(graph, 3, method="metis").owner
    calls = []
    monkeypatch.setattr(metis, "LONG", 0)
    monkeypatch.setattr(metis, "in_child", lambda *words: calls.append(words) or in_child(*words))
    assert partition(graph, 3, method="metis").owner.equal(here) and calls


def test_an_error_is_met_again_here():
    def fail() -> np.ndarray:
        raise ValueError(f"in {os.getpid()}")

    with pytest.raises(ValueError, match=f"in {os.getpid()}"):
        in_child(fail, 3)


def test_a_child_that_was_killed_is_an_error_of_one_line():
    with pytest.raises(WorkerError, match=r"was killed by SIGKILL \(out of memory\?\)"):
        in_child(lambda: os.kill(os.getpid(), signal.SIGKILL), 3)


def test_ctrl_c_ends_a_call_that_holds_pythons_lock():
    process = subprocess.Popen([sys.executable, "-c", HELD], text=True, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=20)[0] == "interrupted\n" and time.monotonic() - begun < 5
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # the child is gone too
