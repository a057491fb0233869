"""Private folders for temporary files: no other user can enter them, and what a killed program left is removed.

Whoever uses a folder holds a lock on a file in it. The system drops the lock when the last of them ends, however it
ends; the next start finds the folder unlocked and removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PREFIX = "halowire-"
LOCK = "in-use"


@dataclass(frozen=True)
class PrivateFolder:
    """A folder, and the open file whose lock says that it is in use; processes that inherit the file use it too."""

    path: Path
    lock: int


@contextmanager
def private_folder() -> Iterator[PrivateFolder]:
    """A new folder with a random name that only this user can enter (mode 0700), removed at the end of the block."""
    remove_abandoned()
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    # The file gets its name only when it is locked: a start at the same moment must not take it for abandoned.
    lock = os.open(path / f"new-{LOCK}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (path / f"new-{LOCK}").rename(path / LOCK)
        yield PrivateFolder(path, lock)
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def remove_abandoned() -> None:
    """Remove this user's private folders that no process uses any more, because it was killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # Somebody else may remove the same folder, or it may not be ours to look into.
        with contextlib.suppress(OSError):
            _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> None:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return
    lock = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
