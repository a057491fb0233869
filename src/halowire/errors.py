"""The errors that a user can act on, their exit codes, and how an error becomes a message of one line."""

from __future__ import annotations

import errno

FAILED, USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes of the program: the work failed, the input was bad, or the run was interrupted."""
NAMED_WRONGLY = (
    errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EROFS, errno.ENAMETOOLONG,
    errno.ELOOP, errno.EINVAL,
)  # fmt: skip
"""Numbers of system errors that another file name or place avoids: they count as bad input, not as a failure."""


class InputError(ValueError):
    """Bad input from the user; the message is one line that says what was given, what was expected, what to do next.

    Example:
        >>> try:
        ...     halowire.train("debain")
        ... except halowire.InputError as error:
        ...     print(error)
    """


class TrainingError(RuntimeError):
    """Training cannot go on; the message says why and what to try."""


class LateError(RuntimeError):
    """A wait passed its deadline; the message says where and which workers never came."""


class WorkerError(RuntimeError):
    """A worker process ended before its work was done; the message says which worker and why."""


class Interrupted(KeyboardInterrupt):
    """A signal stopped the training; the work so far is in a checkpoint."""


def in_one_line(error: BaseException) -> str:
    """The text of ``error`` without line breaks; the name of its type where it has no text."""
    return " ".join(str(error).split()) or type(error).__name__


def system_error(error: OSError) -> str:
    """An error of the operating system in one line: the file, and what is wrong with it."""
    reason = error.strerror.lower() if error.strerror else str(error)
    return f"{error.filename}: {reason}" if error.filename is not None else reason


def explain(error: BaseException) -> tuple[int, str] | None:
    """The exit code and the message of one line for ``error``; None for a bug, whose traceback should be shown."""
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
