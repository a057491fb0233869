"""A program under test: started with a mark in its environment, watched from outside, and never waited for for ever."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.soak.outcome import BadEndError

MARK = "SOAK_CASE"
"""The variable by which everything that a case started is found, whoever its parent is by now."""
HOOK = Path(__file__).with_name("hook")
POLL = 0.01
LONGEST = 120.0
"""Seconds after which the watchdog calls a wait a hang."""
CRASHES = ("Traceback (most recent call last)", "terminate called", "Fatal Python error", "Segmentation fault")


@dataclass(frozen=True)
class End:
    """How a program ended: exit code (negative: by a signal), standard error, seconds since it was started."""

    code: int
    said: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        """The lines on standard error that are no warnings."""
        return [line for line in self.said.splitlines() if line.strip() and not line.startswith("warning:")]


class Program:
    """``words``, started in ``folder``; its output goes to files there."""

    number = 0

    def __init__(self, words: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        Program.number += 1
        self.words = words
        self.folder = folder
        self._output = folder / f"output-{Program.number}.txt"
        self._errors = folder / f"errors-{Program.number}.txt"
        self.began = time.time()
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                words, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """The number of the process that was started, which is the launcher of local workers."""
        return self.process.pid

    @property
    def said(self) -> str:
        """What it printed on standard error so far."""
        return self._errors.read_text(errors="replace")

    @property
    def runs(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    def workers(self) -> list[int]:
        """The local worker processes, in the order of their ranks."""
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rpartition(")")[2].split()
                if int(fields[1]) == self.pid and b"halowire.worker" in (status.parent / "cmdline").read_bytes():
                    found.append(int(status.parent.name))
            except (OSError, IndexError):
                continue
        return sorted(found)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process group, as a terminal does; workers have sessions of their own."""
        send(-self.pid, number)

    def wait_for(self, what: str, seen: Callable[[], bool], seconds: float = LONGEST) -> bool:
        """Wait until ``seen()``; False if the program ended before that."""
        end = time.monotonic() + seconds
        while not seen():
            if not self.runs:
                return seen()
            if time.monotonic() > end:
                raise BadEndError("hang", f"no {what} within {seconds:.0f} s")
            time.sleep(POLL)
        return True

    def wait(self, seconds: float = LONGEST) -> End:
        """Wait until it has ended; no traceback may have been printed."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise BadEndError("hang", f"the program had not ended after {seconds:.0f} s: {self.said[-300:]}") from None
        end = End(code, self.said, time.time() - self.began)
        text = self._output.read_text(errors="replace") + end.said
        for crash in CRASHES:
            if crash in text:
                raise BadEndError("traceback", text[text.index(crash) :][-600:])
        return end


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal to a process, or with a negative number to its group; False if there is none."""
    try:
        if pid < 0:
            os.killpg(-pid, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def alive(pid: int) -> bool:
    """Whether the process runs; a dead one whose parent has not asked yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def marked(case: str | None = None) -> list[int]:
    """All processes that the case (None: any case) started, directly or not, and that still run."""
    word = f"{MARK}=".encode() if case is None else f"{MARK}={case}".encode() + b"\0"
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            if word in file.read_bytes() and alive(int(file.parent.name)):
                found.append(int(file.parent.name))
        except OSError:
            continue
    return found


def resumed_after(said: str) -> int:
    """The epoch after which the last restart went on, as the program itself says."""
    found = re.findall(r"going on after epoch (\d+)", said)
    return int(found[-1]) if found else 0
