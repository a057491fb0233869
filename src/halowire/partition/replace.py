"""Putting a finished folder in its place in one step: readers see the old one or the new one, never a mixture."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path

AT_FDCWD = -100
RENAME_EXCHANGE = 2


def put_in_place(finished: Path, target: Path) -> None:
    """Rename ``finished`` to ``target``; an existing folder ``target`` is exchanged with it and then removed."""
    if not target.exists() or not any(target.iterdir()):
        finished.rename(target)
        return
    if _exchange(finished, target):
        shutil.rmtree(finished)
        return
    # Some file systems cannot exchange: between two renames the name is free for a moment, but nothing is ever lost.
    previous = finished.with_name(finished.name + ".previous")
    target.rename(previous)
    try:
        finished.rename(target)
    except OSError:
        previous.rename(target)
        raise
    shutil.rmtree(previous)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names atomically (Linux ``renameat2``); False where that does not exist."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0)
