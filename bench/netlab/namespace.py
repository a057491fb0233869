"""Network namespaces: made, entered, and deleted with everything that runs in them, also those of a dead owner."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path("/run/netns")
"""Where the `ip` command keeps the names."""
PATIENCE = 10.0
"""Seconds that killed processes get to disappear."""


class CommandError(RuntimeError):
    """A command of the system failed; the message is its own."""


def system(command: str, limit: float = 30) -> str:
    """What ``command`` printed; in a session of its own, so that Ctrl-C does not reach it half way."""
    done = subprocess.run(
        command.split(), capture_output=True, text=True, timeout=limit, check=False, start_new_session=True
    )
    if done.returncode:
        raise CommandError(f"`{command}` failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def new_tag(prefix: str) -> str:
    """A name that tells which process owns what bears it: <prefix>.<process>.<start of the process>.<random>."""
    return f"{prefix}.{os.getpid()}.{_started(os.getpid())}.{uuid.uuid4().hex[:4]}"


def leftovers(prefix: str, names: Iterable[str]) -> list[str]:
    """Those of ``names`` that `new_tag` made with ``prefix`` in a process that is gone."""
    form = re.compile(rf"{re.escape(prefix)}\.(\d+)\.(\d+)\.[0-9a-f]{{4}}\.\w+")
    matches = [match for name in names if (match := form.fullmatch(name))]
    return [match[0] for match in matches if _started(int(match[1])) != int(match[2])]


def sweep(prefix: str) -> list[str]:
    """Delete what dead owners left behind; its names."""
    found = leftovers(prefix, names())
    for name in found:
        delete(name)
    return found


def names() -> list[str]:
    """All named network namespaces of this machine."""
    return sorted(path.name for path in FOLDER.iterdir()) if FOLDER.is_dir() else []


def empty(name: str) -> None:
    """Kill all processes in the namespace ``name`` and wait until they are gone."""
    deadline = time.monotonic() + PATIENCE
    while (processes := system(f"ip netns pids {name}").split()) and time.monotonic() < deadline:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        time.sleep(0.02)


def delete(name: str) -> None:
    """Delete the namespace ``name`` with its processes and interfaces, if it exists."""
    if (FOLDER / name).exists():
        with contextlib.suppress(CommandError, subprocess.TimeoutExpired):
            empty(name)
        system(f"ip netns del {name}")


def _started(process: int) -> int:
    """When ``process`` started, in the kernel's ticks, 0 if there is none; its number alone may be used again."""
    try:
        # The second field is the program's name in parentheses and may itself hold spaces; the start is field 22.
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return 0
