"""The worker processes of one start on this machine: started, watched, and ended together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from halowire.errors import ERROR_FILE
from halowire.launch.failure import Ended, what_was_told

POLL = 0.05
SETTLE = 0.1
"""Seconds between the first failure and the look at the others: a killed process is gone a moment after its sockets."""
GRACE = 30.0
"""Seconds that the others get to end by themselves when a worker has failed."""


class Processes:
    """Worker processes, by rank. Leaving the block kills those that still run."""

    def __init__(self, words: Sequence[str], places: Sequence[Mapping[str, str]], lock: int) -> None:
        """Start the command ``words`` with each of the environments ``places``; all inherit the open file ``lock``."""
        self._errors = [Path(place[ERROR_FILE]) for place in places]
        self._all: list[subprocess.Popen[bytes]] = []
        self._by_launcher: set[int] = set()
        self._stopped: set[int] = set()
        try:
            for place in places:
                # In a session of its own a worker does not get the signals of the terminal: the launcher passes them on
                # once, and nobody else does.
                self._all.append(
                    subprocess.Popen(
                        words, env=dict(place), stdin=subprocess.DEVNULL, start_new_session=True, pass_fds=[lock]
                    )
                )
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def codes(self) -> list[int | None]:
        """The exit codes, None for a worker that still runs."""
        return [process.poll() for process in self._all]

    def ask_to_stop(self) -> None:
        """Ask all workers to stop after the epoch; one that is stopped is continued, or it could not hear that."""
        self._signal(self._running(), signal.SIGTERM, signal.SIGCONT)

    def end(self) -> list[Ended]:
        """End the workers that still run, the stopped ones at once and the others after a while; says how all ended."""
        if self._running():
            time.sleep(SETTLE)
        running = self._running()
        self._by_launcher |= set(running)
        self._stopped |= {rank for rank in running if _is_stopped(self._all[rank].pid)}
        self._signal(self._stopped & set(running), signal.SIGKILL)
        self._signal(running, signal.SIGTERM)
        end = time.monotonic() + GRACE
        while self._running() and time.monotonic() < end:
            time.sleep(POLL)
        self.kill()
        return [
            Ended(rank, process.wait(), what_was_told(file), rank in self._by_launcher, rank in self._stopped)
            for rank, (process, file) in enumerate(zip(self._all, self._errors, strict=True))
        ]

    def kill(self) -> None:
        """Kill the workers that still run; even a stopped process, or one that hangs in native code, ends by this."""
        running = self._running()
        self._by_launcher |= set(running)
        self._signal(running, signal.SIGKILL)
        for rank in running:
            self._all[rank].wait()

    def _running(self) -> list[int]:
        return [rank for rank, code in enumerate(self.codes()) if code is None]

    def _signal(self, ranks: Sequence[int] | set[int], *numbers: signal.Signals) -> None:
        for rank in ranks:
            for number in numbers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._all[rank].pid, number)


def _is_stopped(process: int) -> bool:
    """Whether the system keeps ``process`` from running (only Linux says so in a file)."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    except OSError:
        return False
