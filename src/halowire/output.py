"""Standard output and standard error as a program finds them: a terminal of any encoding, a closed one, or none."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path


def prepare_output() -> None:
    """Let text that the terminal's encoding lacks be printed as escapes, and let output that was closed be nothing.

    Python has no stream at all (None) where the shell closed it, as `>&-` does.
    """
    if sys.stdout is None or sys.stderr is None:
        nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - it stays open as long as the program
        sys.stdout = sys.stdout or nowhere
        sys.stderr = sys.stderr or nowhere
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def flush_output() -> None:
    """Write what is still in the buffers; where nobody can read it any more, it is nothing."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.flush()
