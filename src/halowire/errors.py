"""The errors that a user can act on, their exit codes, and how an error becomes a message of one line.

An error that nobody foresaw is a bug: its message says so, and its traceback goes to a file for the report.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FAILED, USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes of the program: the work failed, the input was bad, or the run was interrupted."""
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""The variable by which a launcher (torchrun, or halowire's own) says where a worker leaves its message."""
NAMED_WRONGLY = (
    errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EROFS, errno.ENAMETOOLONG,
    errno.ELOOP, errno.EINVAL,
)  # fmt: skip
"""Numbers of system errors that another file name or place avoids: they count as bad input, not as a failure."""
NO_MEMORY = (
    "allocate memory", "out of memory", "not enough memory", "std::bad_alloc", "Storage size calculation overflowed",
    "numel: integer multiplication overflow", "invalid array size",
)  # fmt: skip
"""Words of torch for not enough memory."""
CONNECTIONS = (
    "gloo",
    "Gloo",
    "NCCL",
    "TCPStore",
    "ProcessGroup",
    "Connection closed by peer",
    "Connection reset by peer",
)
"""Words of torch for connections between workers."""


class InputError(ValueError):
    """Bad input from the user; the message is one line that says what was given, what was expected, what to do next.

    Example:
        >>> try:
        ...     halowire.train("debain")
        ... except halowire.InputError as error:
        ...     print(error)
    """


class PlaceError(InputError):
    """A launcher's variable is wrong in this process; those of the other workers may be right."""


class TrainingError(RuntimeError):
    """Training cannot go on; the message says why and what to try."""


class NotFiniteError(TrainingError):
    """The loss, a gradient or a weight became NaN or infinite; the message says in which epoch, and where first."""


class LateError(RuntimeError):
    """A wait passed its deadline; the message says where and which workers never came."""


class MessageError(RuntimeError):
    """A message is not the one expected; the text says what was expected, what came, and from which rank."""


class WorkerError(RuntimeError):
    """A worker process ended before its work was done; the message says which worker and why."""


class InternalError(RuntimeError):
    """A bug of halowire; the message says where it happened and which file has the traceback."""


class Interrupted(KeyboardInterrupt):
    """A signal stopped the training; the work so far is in a checkpoint."""


def in_one_line(error: BaseException) -> str:
    """The text of ``error`` without line breaks; the name of its type where it has no text."""
    return " ".join(str(error).split()) or type(error).__name__


def size_text(count: float) -> str:
    """Bytes as the report writes them, with three digits: 512 B, 1.50 KiB, 12.3 MiB."""
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    unit = 0
    while count >= 1023.5 and unit < len(units) - 1:
        count, unit = count / 1024, unit + 1
    places = 0 if unit == 0 or count >= 99.95 else 1 if count >= 9.995 else 2
    return f"{count:.{places}f} {units[unit]}"


def system_error(error: OSError) -> str:
    """An error of the operating system in one line: the file, and what is wrong with it."""
    reason = error.strerror[:1].lower() + error.strerror[1:] if error.strerror else str(error)
    named = error.filename.decode(errors="replace") if isinstance(error.filename, bytes) else error.filename
    return f"{named}: {reason}" if named is not None else reason


def explain(error: BaseException) -> tuple[int, str] | None:
    """The exit code and the message of one line for ``error``; None for a bug."""
    found: tuple[int, str] | None = None
    if isinstance(error, InputError):
        found = USAGE, str(error)
    elif isinstance(error, LateError | MessageError | TrainingError | WorkerError | InternalError):
        found = FAILED, str(error)
    elif isinstance(error, KeyboardInterrupt):
        found = INTERRUPTED, str(error) or "interrupted"
    elif _is_of_memory(error):
        found = FAILED, _memory_words(str(error))
    elif isinstance(error, OSError):
        found = (USAGE if error.errno in NAMED_WRONGLY else FAILED), system_error(error)
    elif _is_of_connections(error):
        found = FAILED, f"the connection between the workers broke: {without_source(error)}"
    return None if found is None else (found[0], " ".join(found[1].split()))


def _is_of_memory(error: BaseException) -> bool:
    """Whether ``error`` says that there is not enough memory; torch, numpy and the system each have their own words."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)


def _memory_words(text: str) -> str:
    """The message of an error of memory, with the amount that was asked for where ``text`` names it."""
    asked = ""
    if found := re.search(r"allocate (\d+) bytes", text):
        asked = f": {size_text(int(found[1]))} were asked for at once"
    elif found := re.search(r"allocate ([\d.]+ [KMGTPE]?i?B)\b", text):
        asked = f": {found[1]} were asked for at once"
    return f"out of memory{asked}; use more workers, a smaller graph, a smaller --model.hidden or fewer --model.layers"


def _is_of_connections(error: BaseException) -> bool:
    """Whether ``error`` comes from torch's connections between workers; torch is not imported here to ask it."""
    own = type(error).__module__.startswith("torch") and type(error).__name__.startswith("Dist")
    return own or (isinstance(error, RuntimeError) and any(words in str(error) for words in CONNECTIONS))


def without_source(error: BaseException) -> str:
    """The first line of an error of Gloo or of torch, without the source file and line that it begins with.

    Some messages end with a wave, which goes too.
    """
    return re.sub(r"^\[[^\]]*\]\s*", "", (str(error).splitlines() or [""])[0]).partition("GLHF")[0].strip(" .")


@contextmanager
def bugs_kept(folder: Path, rank: int) -> Iterator[None]:
    """Turn an error in the block that nobody foresaw into an :class:`InternalError`.

    Its traceback is written to ``error-<rank>.txt`` in ``folder``, or where that cannot be written to the system's
    folder of temporary files. With HALOWIRE_TRACEBACK=1 the error stays as it is, and Python shows the traceback.
    """
    try:
        yield
    except Exception as error:
        if explain(error) is not None or wants_traceback():
            raise
        raise internal_error(error, folder, rank) from error


def internal_error(error: Exception, folder: Path | None = None, rank: int = 0) -> InternalError:
    """The message about a bug, whose traceback is written to a file."""
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({Path(frame.filename).name}, line {frame.lineno}, in {frame.name})" for frame in place)
    what = f"{type(error).__name__}: {in_one_line(error)}"
    file = _keep_traceback(error, folder, rank)
    kept = f"traceback in {file}" if file else "traceback that HALOWIRE_TRACEBACK=1 prints"
    return InternalError(f"worker {rank} met a bug of halowire, {what}{where}; please report it with the {kept}")


def wants_traceback() -> bool:
    """Whether the user asked for tracebacks on the console."""
    return os.environ.get("HALOWIRE_TRACEBACK", "") not in ("", "0")


def _keep_traceback(error: Exception, folder: Path | None, rank: int) -> Path | None:
    """Write the traceback to a file; None where no file can be written."""
    text = "".join(traceback.format_exception(error)).encode(errors="backslashreplace")
    if folder is not None and folder.is_dir():
        try:
            file = folder / f"error-{rank}.txt"
            file.write_bytes(text)
        except OSError:
            pass
        else:
            return file
    try:
        handle, name = tempfile.mkstemp(prefix="halowire-error-", suffix=".txt")
        os.write(handle, text)
        os.close(handle)
    except OSError:
        return None
    return Path(name)
