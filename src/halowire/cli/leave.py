"""The end of a worker process, which is not the interpreter's own."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process with ``code`` at once: a Gloo thread that lets go of a tensor while the interpreter ends aborts
    the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
