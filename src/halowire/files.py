"""Files and folders that are written whole or not at all: a reader sees the old or the new one, never half of one."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

AT_FDCWD = -100
RENAME_EXCHANGE = 2


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """Give a name beside ``target`` to write a file to; at the end of the block the file is renamed to ``target``.

    Where the block fails, the half-written file is removed and ``target`` stays as it was.
    """
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(4)}.tmp{target.suffix}")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write ``text`` in UTF-8 to the file ``target``, whole or not at all."""
    with written_whole(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(target: Path, values: Any) -> None:
    """Write ``values`` as JSON to the file ``target``, whole or not at all; NaN and infinity are refused."""
    write_text(target, json.dumps(values, indent=1, allow_nan=False) + "\n")


@contextmanager
def folder_written_whole(target: Path) -> Iterator[Path]:
    """Give a new folder beside ``target`` to fill; at the end of the block it takes the place of ``target``.

    Where the block fails, the half-filled folder is removed and ``target`` stays as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.tmp-{secrets.token_hex(4)}")
    temporary.mkdir()
    try:
        yield temporary
        put_in_place(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def put_in_place(finished: Path, target: Path) -> None:
    """Rename the folder ``finished`` to ``target``; an existing ``target`` is exchanged with it and then removed."""
    if not target.exists() or not any(target.iterdir()):
        finished.rename(target)
        return
    if _exchange(finished, target):
        shutil.rmtree(finished)
        return
    # Some file systems cannot exchange names: then ``target`` is missing for a moment, but nothing is ever lost.
    previous = finished.with_name(finished.name + ".previous")
    target.rename(previous)
    try:
        finished.rename(target)
    except OSError:
        previous.rename(target)
        raise
    shutil.rmtree(previous)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names atomically with Linux's ``renameat2``; returns whether the system could do that."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0)
