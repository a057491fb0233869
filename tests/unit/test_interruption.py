"""Two Ctrl-C end a process that a native call holds back, and no other one."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from halowire.interruption import ECHO, PATIENCE, second_interrupt_ends

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
HANGS = """
import ctypes, signal
from halowire.interruption import second_interrupt_ends
signal.signal(signal.SIGINT, lambda *_: None)
with second_interrupt_ends():
    print("ready", flush=True)
    for _ in range(100):
        ctypes.CDLL(None).poll(None, 0, 60000)
        BODY
"""


def started(body: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", HANGS.replace("BODY", body)]
    process = subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    asleep, end = 0, time.monotonic() + 20
    while asleep < 3:  # in the native call, not on the way to it
        time.sleep(0.1)
        asleep = asleep + 1 if state_of(process.pid) == "S" else 0
        assert time.monotonic() < end, "the process does not wait"
    return process


def state_of(pid: int) -> str:
    """The state of a process's first thread; ``S`` sleeps."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def hanging():
    process = started("pass")
    yield process
    process.kill()
    process.communicate()


def test_two_interrupts_end_a_native_call(hanging):
    hanging.send_signal(signal.SIGINT)
    time.sleep(2 * ECHO)
    begun = time.monotonic()
    hanging.send_signal(signal.SIGINT)
    _, said = hanging.communicate(timeout=20)
    assert (hanging.returncode, said) == (130, "halowire: interrupted twice: ended at once\n")
    assert PATIENCE - 0.1 < time.monotonic() - begun < PATIENCE + 2


def test_an_echo_and_other_signals_are_no_second_wish(hanging):
    hanging.send_signal(signal.SIGINT)
    hanging.send_signal(signal.SIGINT)
    time.sleep(PATIENCE + 1)
    assert hanging.poll() is None


def test_who_leaves_in_time_ends_by_itself():
    process = started("break")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[1] == "" and process.returncode == 0


def test_the_signals_of_an_event_loop_stay_its_own():
    async def work() -> list[int]:
        got: list[int] = []
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, got.append, 1)
        with second_interrupt_ends():
            signal.raise_signal(signal.SIGUSR1)
            await asyncio.sleep(0.1)
        return got

    assert asyncio.run(work()) == [1]


def test_nothing_is_left_behind():
    before = threading.active_count()
    for _ in range(3):
        with second_interrupt_ends(), second_interrupt_ends():
            pass
    end = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == before and signal.set_wakeup_fd(-1) == -1
