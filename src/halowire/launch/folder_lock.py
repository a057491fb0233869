"""A folder that a run, a comparison or a partition writes to is locked, so that no second one writes there as well.

The lock is a file beside the folder, ``.NAME.lock``, locked by the system (``flock``) and gone when the work is over.
Who may not write there locks a file ``.lock`` inside the folder. Both are looked at by everybody, because two users may
have different rights. The file says who holds it. The system frees the lock of a process that died, so a file that is
left behind locks nothing. The holder and its workers share the lock: the folder is free only when all of them have
ended. Where a file system cannot lock, a warning says so, the folder is refused only if the holder is known to be
alive, and what an earlier run left half-written stays, because it may belong to a run that lives on another machine.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shlex
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from halowire.errors import InputError
from halowire.files import LONGEST_NAME, remove_unfinished, written_to

CANNOT = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF)
"""What a file system answers that cannot lock; NFS says EBADF of a file that may only be read."""
MAY_NOT = (errno.EACCES, errno.EPERM, errno.EROFS)
"""What the system answers where the lock file may not be written."""
OPENED_WITH_CARE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""In a folder of all users, another user may have put a link there, or a pipe, whose opening would wait for ever."""
INSIDE = ".lock"
LONGEST_COMMAND = 200


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock; ``begun`` tells it from a later process that got the same number."""

    host: str
    boot: str
    pid: int
    begun: str
    since: str
    command: str

    @staticmethod
    def me() -> Holder:
        """This process."""
        command = shlex.join(sys.argv or ["python"])[:LONGEST_COMMAND]
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        return Holder(socket.gethostname(), _boot(), os.getpid(), _begun(os.getpid()), since, command)

    @staticmethod
    def read(text: str) -> Holder | None:
        """The holder that a lock file names; None where the file holds something else."""
        try:
            values = json.loads(text)
            names = Holder.__dataclass_fields__
            holder = Holder(**{name: values[name] for name in names})
            return holder if isinstance(holder.pid, int) and isinstance(holder.host, str) else None
        except (ValueError, TypeError, KeyError, RecursionError):
            return None

    def alive(self) -> bool | None:
        """Whether the process still runs; None where nobody here can know, because it is on another machine."""
        if self.host != socket.gethostname():
            return None
        return self.boot == _boot() and bool(self.begun) and self.begun == _begun(self.pid)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since} (`{self.command}`)"


@contextmanager
def folder_locked(folder: Path, warn: Callable[[str], None]) -> Iterator[None]:
    """Lock ``folder`` for the block; refuses a folder that another process, or another thread, has locked.

    Half-written files and folders that a holder left when it was killed are removed where nobody else can write there.
    """
    made = _make_parents(lock_file(folder))
    held: dict[Path, int] = {}
    try:
        if _take(folder, warn, held):
            remove_unfinished(folder.resolve())
        yield
    finally:
        for path, handle in held.items():
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            os.close(handle)
        for parent in made:
            with contextlib.suppress(OSError):
                parent.rmdir()


@contextmanager
def lock_shared(folder: Path) -> Iterator[None]:
    """Share the lock of ``folder`` for the block with the process that took it: a worker may outlive its launcher."""
    handles = []
    try:
        for path in lock_files(folder):
            with contextlib.suppress(OSError):  # nobody locked it in this place, or a file system cannot lock
                handles.append(os.open(path, os.O_RDONLY | OPENED_WITH_CARE))
                fcntl.flock(handles[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        for handle in handles:
            os.close(handle)


def lock_file(folder: Path) -> Path:
    """The lock file of ``folder``; all names of one folder have the same."""
    whole = folder.resolve()
    name = os.fsdecode(os.fsencode(whole.name)[: LONGEST_NAME - len("..lock")])
    return whole.parent / f".{name}.lock"


def lock_files(folder: Path) -> tuple[Path, Path]:
    """Where a lock of ``folder`` may lie: beside it and, for who may not write there, inside it."""
    return lock_file(folder), folder.resolve() / INSIDE


def _make_parents(path: Path) -> list[Path]:
    """Make the folders above ``path``; returns those that were missing, the innermost first."""
    missing = [parent for parent in path.parents if not parent.exists()]
    nearest = next(parent for parent in path.parents if parent not in missing)
    if not nearest.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(nearest))
    with written_to(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    return missing


def _take(folder: Path, warn: Callable[[str], None], held: dict[Path, int]) -> bool:
    """Lock the file beside ``folder`` or, if it may not be written, the one inside, and put it in ``held``.

    Returns whether nobody else can write to the folder. Who made one of the files looks for the other one afterwards:
    of two that come at the same time by different ways, at least one sees the other.
    """
    beside, inside = lock_files(folder)
    alone = True
    for path, make in ((beside, True), (inside, False)):
        alone &= _take_one(path, folder, make, warn, held)
    if not held:
        for path, make in ((inside, True), (beside, False)):
            alone &= _take_one(path, folder, make, warn, held)
    if not held and folder.exists():  # what does not exist is refused when it cannot be made
        warn(
            f"{folder} cannot be locked, because no file may be written beside it or in it: make sure that no other "
            "run writes to it"
        )
    return alone and bool(held)


def _take_one(path: Path, folder: Path, make: bool, warn: Callable[[str], None], held: dict[Path, int]) -> bool:
    """Lock the file ``path`` and put it in ``held``, if it is there or may be made; False where it cannot be locked."""
    while (handle := _open(path, make)) is not None:
        try:
            locked = _lock(handle, folder, warn)
            if _is_still(handle, path):
                _write(handle, Holder.me())
                held[path] = handle
                return locked
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its holder removed it a moment ago: lock the next one
    return True


def _open(path: Path, make: bool) -> int | None:
    """Open a lock file; None where there is none, and none may be made."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT * make | OPENED_WITH_CARE, 0o644)
    except OSError as error:
        if error.errno not in (*MAY_NOT, errno.ENOENT):
            raise
    try:
        return os.open(path, os.O_RDONLY | OPENED_WITH_CARE)  # a file of another user's is locked without writing to it
    except OSError as error:
        if error.errno not in (*MAY_NOT, errno.ENOENT):
            raise
        return None


def _lock(handle: int, folder: Path, warn: Callable[[str], None]) -> bool:
    """Lock the open file alone, then share the lock with the workers to come; False where files cannot be locked."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Nobody else held it. Whoever gets in between the two calls makes the second one fail.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        holder = _named(handle)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise _in_use(folder, holder) from None
        if error.errno not in CANNOT:
            raise
        if holder is not None and holder.alive():
            raise _in_use(folder, holder) from None
        unknown = f", and {holder} may still use it" if holder is not None and holder.alive() is None else ""
        warn(f"the file system of {folder} cannot lock{unknown}: make sure that no other run writes to it")
        return False
    return True


def _named(handle: int) -> Holder | None:
    """The holder that an open lock file names; None where it is no file of a lock."""
    try:
        return Holder.read(os.pread(handle, 1 << 16, 0).decode(errors="replace"))
    except OSError:  # of a pipe
        return None


def _in_use(folder: Path, holder: Holder | None) -> InputError:
    who = holder or "another process"
    return InputError(f"{folder} is in use by {who}; wait until it ends, stop it, or choose another --out")


def _is_still(handle: int, path: Path) -> bool:
    """Whether the open file is the one that the path names."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _write(handle: int, holder: Holder) -> None:
    """Say in the lock file who holds it; a full disk must not prevent the work, and the lock holds without that."""
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(asdict(holder)).encode(), 0)


def _boot() -> str:
    """What tells this start of the machine from others; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _begun(pid: int) -> str:
    """When the process began, in clock ticks since the boot; empty where it does not run or nobody knows."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
