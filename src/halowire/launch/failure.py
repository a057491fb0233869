"""How one worker's failure becomes known, so that the user reads its cause in one line and not one line per worker.

A worker tells its launcher through a file, and the other workers in a step that all of them must get through.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import torch
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from halowire.errors import FAILED, INTERRUPTED, USAGE, InputError, WorkerError, system_error
from halowire.wire import Transport

VARIABLE = "TORCHELASTIC_ERROR_FILE"
LONGEST = 500
"""Most bytes of a message that the other workers are told."""
Result = TypeVar("Result")


def tell_launcher(message: str, code: int = FAILED, lost: bool = False) -> bool:
    """Leave ``message`` and the exit code for the launcher; returns False where there is no launcher.

    The exit code is written down because the launcher may end a worker that is about to leave by itself. ``lost`` says
    that this worker failed only because another one went away, whose own message explains more.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return False
    now = time.time()
    said = {"message": message, "code": code, "lost": lost, "timestamp": int(now), "time": now}
    Path(path).write_text(json.dumps(said))
    return True


def cause(failures: Mapping[int, ProcessFailure]) -> BaseException:
    """The error that caused the ``failures`` (by rank): that of a worker that failed by itself or was killed."""
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


def agreed(step: Callable[[], Result], transport: Transport, where: str) -> Result:
    """The result of ``step()``; if it fails on some workers, all workers raise the message of the first of them.

    Otherwise the other workers would wait for a worker that has gone, and report its absence instead of the cause.
    """
    message = ""
    try:
        result = step()
    except InputError as error:
        message = str(error)
    except OSError as error:
        message = system_error(error)
    said = list(message.encode()[:LONGEST])
    notes = torch.zeros(transport.size, LONGEST, dtype=torch.uint8)
    notes[transport.rank, : len(said)] = torch.tensor(said, dtype=torch.uint8)
    transport.all_reduce(notes, where, account=None)
    for note in notes:
        if note.any():
            raise InputError(bytes(note.tolist()).rstrip(b"\0").decode(errors="replace"))
    return result
