"""Errors in the user's words: one line and an exit code for everything that the user can act on."""

from __future__ import annotations

import errno

from halowire.exchange import LateError
from halowire.kernels import InputError
from halowire.launch import FAILED, INTERRUPTED, USAGE, WorkerError, system_error
from halowire.train.loop import TrainingError

NAMED_WRONGLY = (
    errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EROFS, errno.ENAMETOOLONG,
    errno.ELOOP, errno.EINVAL,
)  # fmt: skip
"""Errors of the operating system that another name or place would avoid."""


def explain(error: BaseException) -> tuple[int, str] | None:
    """(exit code, one line) for ``error``; None where it is a bug and deserves its traceback."""
    found: tuple[int, str] | None = None
    if isinstance(error, InputError):
        found = USAGE, str(error)
    elif isinstance(error, LateError | TrainingError | WorkerError):
        found = FAILED, str(error)
    elif isinstance(error, KeyboardInterrupt):
        found = INTERRUPTED, str(error) or "interrupted"
    elif isinstance(error, OSError):
        found = (USAGE if error.errno in NAMED_WRONGLY else FAILED), system_error(error)
    elif isinstance(error, MemoryError) or "allocate memory" in str(error):
        found = FAILED, "out of memory; use more workers, a smaller --model.hidden or fewer --model.layers"
    return None if found is None else (found[0], " ".join(found[1].split()))
