"""How one worker's failure becomes known, so that the user reads its cause in one line and not one line per worker.

A worker tells its launcher through a file.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from halowire.errors import ERROR_FILE, FAILED, INTERRUPTED, USAGE, InputError, WorkerError
from halowire.files import write_text


@dataclass(frozen=True)
class Ended:
    """How a worker ended: its exit code (negative: the signal that killed it) and the message that it left.

    ``by_launcher``: the launcher ended it, because of a signal or because another worker had failed. ``stopped``: it
    was stopped at that moment (by SIGSTOP, by Ctrl-Z or in a debugger), so that it could not answer anybody.
    """

    rank: int
    code: int
    told: Mapping[str, Any] = field(default_factory=dict)
    by_launcher: bool = False
    stopped: bool = False


def tell_launcher(message: str, code: int = FAILED, lost: bool = False) -> bool:
    """Leave ``message`` and the exit code for the launcher; returns False where it cannot be told.

    There may be no launcher, or no room for the message: a full disk must not hide what it says.

    The exit code is written down because the launcher may end a worker that is about to leave by itself. ``lost`` says
    that this worker failed only because another one went away, whose own message explains more.
    """
    path = os.environ.get(ERROR_FILE)
    if not path:
        return False
    now = time.time()
    said = {"message": message, "code": code, "lost": lost, "timestamp": int(now), "time": now}
    try:
        write_text(Path(path), json.dumps(said))
    except OSError:
        return False
    return True


def what_was_told(file: Path) -> dict[str, Any]:
    """The message that a worker left in ``file``; empty where it left none."""
    return dict(json.loads(file.read_text())) if file.exists() else {}


def cause(ends: Sequence[Ended], asked: bool = False) -> BaseException:
    """The error that explains how the workers ended; ``asked``: a signal asked the launcher to stop.

    The true cause comes before its consequences: a worker that was killed, one that failed by itself, the wish to stop,
    one that was stopped, and last those that lost another one.
    """
    told = sorted((end for end in ends if end.told), key=lambda end: (end.told["lost"], end.told["time"]))
    # A worker that the launcher itself ended, because another one failed, also leaves as if it was interrupted.
    stop = asked or any(end.code == INTERRUPTED and not end.by_launcher for end in ends)
    found = [
        *(_killed(end) for end in ends if _killed_from_outside(end)),
        *(_told(end) for end in told if not end.told["lost"]),
        *([KeyboardInterrupt()] if stop else []),
        *(_silent(end) for end in ends if end.code != 0 and not end.told and not end.by_launcher),
        *(_stopped(end) for end in ends if end.stopped),
        *(_told(end) for end in told),
        *(_killed(end) for end in ends if end.code not in (0, INTERRUPTED)),
    ]
    return found[0] if found else KeyboardInterrupt()


def _killed_from_outside(end: Ended) -> bool:
    ours = end.by_launcher and end.code in (-signal.SIGTERM, -signal.SIGKILL)
    return end.code < 0 and not ours


def _killed(end: Ended) -> WorkerError:
    if not _killed_from_outside(end):
        return WorkerError(f"worker {end.rank} did not end by itself, so that it was killed")
    name = next((known.name for known in signal.Signals if known == -end.code), f"signal {-end.code}")
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    return WorkerError(f"worker {end.rank} was killed by {name}{hint}")


def _told(end: Ended) -> BaseException:
    return (InputError if end.told["code"] == USAGE else WorkerError)(end.told["message"])


def _silent(end: Ended) -> WorkerError:
    return WorkerError(f"worker {end.rank} ended with exit code {end.code}; what it printed above says why")


def _stopped(end: Ended) -> WorkerError:
    return WorkerError(f"worker {end.rank} did not answer: it is stopped (by SIGSTOP, Ctrl-Z or a debugger)")
