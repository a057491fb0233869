"""What the soak puts into the programs that it starts: a process that kills itself at a chosen call, a false version.

Python imports this file in every process whose PYTHONPATH names its folder, which only the soak's own programs have.
``SOAK_CALLS`` names a file in which renames and fsyncs under ``checkpoints`` are counted; ``SOAK_PLAN`` is JSON: for
every start of the workers ``[rank, n, "before" or "after"]``, the call at which that worker ends itself by SIGKILL;
``SOAK_VERSION`` is what the package halowire says of its version.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

CALLS = os.environ.get("SOAK_CALLS", "")
PLAN = json.loads(os.environ.get("SOAK_PLAN", "[]"))
VERSION = os.environ.get("SOAK_VERSION", "")
RANK = int(os.environ.get("RANK", "-1"))
START = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def place_of(target: Any) -> str:
    """The path of ``target``, a path or an open file."""
    if not isinstance(target, int):
        return os.path.abspath(os.fsdecode(target))  # noqa: PTH100 - pathlib is what may be wrapped here
    try:
        return os.readlink(f"/proc/self/fd/{target}")  # noqa: PTH115
    except OSError:
        return ""


def note(*words: object) -> None:
    """Append a line to the file of calls, whole."""
    file = os.open(CALLS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, (" ".join(map(str, words)) + "\n").encode())
    os.close(file)


def watched(name: str, call: Callable[..., Any], seen: list[str]) -> Callable[..., Any]:
    """``call``, counted where it touches a checkpoint; ``seen`` are the calls of this process so far."""

    def counted(target: Any, *rest: Any, **named: Any) -> Any:
        path = place_of(target)
        if "/checkpoints" not in path or RANK < 0:
            return call(target, *rest, **named)
        seen.append(name)
        number = len(seen)
        note("call", time.time(), START, RANK, name, path)
        planned = PLAN[START] if len(PLAN) > START else [-1, 0, ""]
        mine = planned[:2] == [RANK, number]
        if mine and planned[2] == "before":
            end(name, path)
        result = call(target, *rest, **named)
        if mine:
            end(name, path)
        return result

    return counted


def end(name: str, path: str) -> None:
    """End this process as kill -9 does, and leave the time and the place of it."""
    note("killed", time.time(), START, RANK, name, path)
    os.kill(os.getpid(), signal.SIGKILL)


if CALLS:
    calls: list[str] = []
    for known in ("rename", "replace", "fsync"):
        setattr(os, known, watched(known, getattr(os, known), calls))
if VERSION:
    true_version = importlib.metadata.version
    setattr(importlib.metadata, "version", lambda name: VERSION if name == "halowire" else true_version(name))  # noqa: B010
