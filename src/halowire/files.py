"""Files and folders that are written whole or not at all: a reader sees the old or the new one, never half of one.

Where the disk is full or may not be written to, the error says which folder it is, and how much is needed and free.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from halowire.errors import InputError, size_text

AT_FDCWD = -100
RENAME_EXCHANGE = 2
LONGEST_NAME = 255
"""Bytes of the longest file name that Linux's file systems take."""
BLOCK = 4096
"""What is written past the system's cache begins and ends at multiples of so many bytes, on disk and in memory."""
LARGE = 1 << 20
"""Bytes of the smallest file that is written past the system's cache."""
UNFINISHED = re.compile(
    r"\.(?P<folder>.+)\.tmp-[0-9a-f]{8}(?P<previous>\.previous)?"  # of `folder_written_whole`
    r"|\..+\.[0-9a-f]{8}\.tmp(\.[^.]+)?",  # of `written_whole`
    re.DOTALL,
)
"""The names of folders and files that are not in their place yet; a user's file hardly has such a name."""


@contextmanager
def written_to(folder: Path, needed: int | None = None) -> Iterator[None]:
    """Let an error of writing in the block say that ``folder`` could not be written to, and why.

    If the disk is full, the error says how much is free and how many bytes the block writes (``needed``).
    """
    try:
        yield
    except Exception as error:
        number = _error_number(error)
        words = _why_not(number, folder, needed)
        if words is None:
            raise
        raise OSError(number, words, str(folder)) from error


def _error_number(error: Exception) -> int | None:
    """The number of the system's error behind ``error``; numpy and safetensors have only words for it."""
    if isinstance(error, OSError):
        short = error.errno is None and re.search(r"requested and \d+ written", str(error))
        return errno.ENOSPC if short else error.errno
    if type(error).__name__ == "SafetensorError":
        found = re.search(r"(?:os error|code:) (\d+)", str(error))
        return int(found[1]) if found else None
    return None


def _why_not(number: int | None, folder: Path, needed: int | None) -> str | None:
    """Why ``folder`` cannot be written to, for the error ``number`` of the system; None for errors of other kinds."""
    asked = "" if needed is None else f"about {size_text(needed)} are needed and "
    if number == errno.ENOSPC:
        return f"the disk is full, {asked}{size_text(_free(folder))} are free; make room there or choose another folder"
    if number == errno.ENOENT and not folder.exists():
        return "this folder is gone: it was deleted or moved while it was written to"
    forbidden = "permission denied; choose a folder that you may write to"
    words = {
        errno.EDQUOT: f"your quota is used up, {asked}no more is allowed; make room there or choose another folder",
        errno.EFBIG: f"a file may not become so large, {asked}your limit (`ulimit -f`) or the disk's is less",
        errno.EROFS: "this file system can only be read; choose another folder",
        errno.EACCES: forbidden,
        errno.EPERM: forbidden,
    }
    return None if number is None else words.get(number)


def _free(folder: Path) -> int:
    """Bytes that are free on the disk of ``folder``, which need not exist yet."""
    try:
        return shutil.disk_usage(next(path for path in (folder, *folder.absolute().parents) if path.exists())).free
    except OSError:
        return 0


@contextmanager
def written_whole(target: Path, needed: int | None = None) -> Iterator[Path]:
    """Give a name beside ``target`` to write a file to; at the end of the block the file is renamed to ``target``.

    Where the block fails, the half-written file is removed and ``target`` stays as it was. ``needed`` are the bytes of
    the file, for the message if they do not fit on the disk.
    """
    if target.exists() and not target.is_file():
        # A rename would put a file in the place of a folder's name, or of a device such as /dev/null.
        raise InputError(f"{target} is a folder or a device; give the name of a file")
    end = f".{secrets.token_hex(4)}.tmp{target.suffix}"
    # A name that is allowed stays allowed: the beginning of a very long one is enough under a temporary name.
    start = os.fsdecode(os.fsencode(target.stem)[: LONGEST_NAME - len(os.fsencode(end)) - 1])
    temporary = target.with_name(f".{start}{end}")
    try:
        with written_to(target.parent, needed):
            yield temporary
            temporary.replace(target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write ``text`` in UTF-8 to the file ``target``, whole or not at all."""
    # A file name that is no UTF-8 may be part of the text.
    data = text.encode("utf-8", errors="backslashreplace")
    with written_whole(target, len(data)) as temporary:
        temporary.write_bytes(data)


def write_synced(folder: Path, contents: Mapping[str, bytes | memoryview]) -> None:
    """Write a file to ``folder`` for each of ``contents``; on return they are on the disk, not only with the system.

    All of them are written before the first is waited for, so that the disk brings its journal up to date only once.
    """
    handles: list[int] = []
    try:
        for name, data in contents.items():
            handles.append(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666))
            _write_all(handles[-1], memoryview(data))
        for handle in handles:
            os.fsync(handle)
    finally:
        for handle in handles:
            os.close(handle)


def _write_all(handle: int, data: memoryview) -> None:
    """Write ``data``, the whole blocks of a large one past the system's cache.

    A copy in the cache is of no use to what is synced at once, and making, writing and freeing it takes several times
    the processor time. Where the file system or the memory's address do not allow that, the cache is used.
    """
    direct = len(data) // BLOCK * BLOCK if len(data) >= LARGE and _set_direct(handle, True) else 0
    at = 0
    while at < direct:
        try:
            at += os.write(handle, data[at:direct])
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            break
    if direct:
        _set_direct(handle, False)
    while at < len(data):
        at += os.write(handle, data[at:])


def _set_direct(handle: int, on: bool) -> bool:
    """Let a file be written past the system's cache, or through it again; returns whether the system could do that."""
    flags = fcntl.fcntl(handle, fcntl.F_GETFL)
    try:
        fcntl.fcntl(handle, fcntl.F_SETFL, flags | os.O_DIRECT if on else flags & ~os.O_DIRECT)
    except OSError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Let the names in ``folder`` be on the disk when this returns: new and renamed files outlast a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(target: Path, values: Any) -> None:
    """Write ``values`` as JSON to the file ``target``, whole or not at all; NaN and infinity are refused."""
    write_text(target, json.dumps(values, indent=1, allow_nan=False) + "\n")


@contextmanager
def folder_written_whole(target: Path, needed: int | None = None) -> Iterator[Path]:
    """Give a new folder beside ``target`` to fill; at the end of the block it takes the place of ``target``.

    Where the block fails, the half-filled folder is removed and ``target`` stays as it was. ``needed`` are the bytes of
    all files, for the message if they do not fit on the disk.
    """
    temporary = target.with_name(f".{target.name}.tmp-{secrets.token_hex(4)}")
    with written_to(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
    try:
        with written_to(target, needed):
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


def remove_unfinished(folder: Path) -> None:
    """Remove what writers that were killed left in ``folder``, and beside it under its name.

    Nobody else may write there meanwhile. A folder whose name was free at the moment of the kill, because its successor
    was about to take it, gets its name back.
    """
    beside = [(path, name) for path, name in _unfinished(folder.parent) if name["folder"] == folder.name]
    for path, name in _unfinished(folder) + beside:
        target = path.with_name(name["folder"]) if name["previous"] else None
        with suppress(OSError):
            if target is not None and not target.exists():
                path.rename(target)
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def _unfinished(folder: Path) -> list[tuple[Path, re.Match[str]]]:
    try:
        return [(path, found) for path in folder.iterdir() if (found := UNFINISHED.fullmatch(path.name))]
    except OSError:  # there is no such folder yet, or it may not be listed
        return []


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names atomically with Linux's ``renameat2``; returns whether the system could do that."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0)
