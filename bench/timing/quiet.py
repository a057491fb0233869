"""How much of the machine others use: a measurement of times needs its cores to itself."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

MOST = 0.1
"""Share of all cores that others may use."""
LOOK = 2.0


def busy_seconds() -> float:
    """Core-seconds that all programs have used since the machine started, interrupts (and so the links) excluded."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def others(busy: float, own: float, seconds: float) -> float:
    """The share of the cores used by others, where ``busy`` core-seconds were used in all and ``own`` by us."""
    return max(0.0, busy - own) / (seconds * (os.cpu_count() or 1))


def wait_for_quiet(patience: float) -> None:
    """Wait until others leave the cores alone, at most ``patience`` seconds."""
    end, told = time.monotonic() + patience, False
    while time.monotonic() < end:
        before = busy_seconds()
        time.sleep(LOOK)
        used = others(busy_seconds() - before, 0.0, LOOK)
        if used <= MOST:
            return
        if not told:
            print(f"others use {used:.0%} of the cores: waiting for them to end", file=sys.stderr, flush=True)
            told = True
