"""Why a worker failed: it tells its launcher through a file, so that the user reads one line and not one per worker."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from halowire.errors import FAILED, INTERRUPTED, USAGE, InputError, WorkerError

VARIABLE = "TORCHELASTIC_ERROR_FILE"


def tell_launcher(message: str, code: int = FAILED, lost: bool = False) -> bool:
    """Leave ``message`` and the exit code meant where the launcher looks for them; whether there is such a place.

    The code is told because the launcher may end a worker that is about to leave by itself. ``lost``: what failed is
    that another worker went away, which that one explains better.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return False
    now = time.time()
    said = {"message": message, "code": code, "lost": lost, "timestamp": int(now), "time": now}
    Path(path).write_text(json.dumps(said))
    return True


def cause(failures: Mapping[int, ProcessFailure]) -> BaseException:
    """The error behind the ``failures`` by rank: a worker that was killed, or failed, explains those that lost it."""
    by_code = {failure.exitcode: rank for rank, failure in failures.items()}
    killed = [code for code in by_code if code < 0 and code != -signal.SIGTERM]
    if killed:
        name = signal.Signals(-killed[0]).name
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        return WorkerError(f"worker {by_code[killed[0]]} was killed by {name}{hint}")
    if INTERRUPTED in by_code:
        return KeyboardInterrupt()
    told = [
        (data["lost"], data["time"], rank)
        for rank, failure in failures.items()
        if "time" in (data := failure.error_file_data)
    ]
    if not told:
        code, rank = next(iter(by_code.items()))
        return WorkerError(f"worker {rank} ended with exit code {code}; what it printed above says why")
    first = failures[min(told)[2]]
    meant = first.error_file_data.get("code", first.exitcode)
    return (InputError if meant == USAGE else WorkerError)(first.message)
