"""Gives bad files to the command line, one after the other, in a process of little memory.

The first argument is a list of command lines as JSON; a line of JSON for each gives its exit code and its words.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import signal
import sys
from pathlib import Path

from halowire.cli.main import main

ROOM = 768 << 20
"""Bytes of memory that reading may take beyond what the program has after it started."""
PATIENCE = 60
"""Seconds until a case counts as hanging; each takes one or two."""


def call(words: list[str]) -> tuple[int, str]:
    """The exit code and the words of a command."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        return main(words), said.getvalue()


if __name__ == "__main__":
    call(["inspect", "sbm:nodes=20,edges=40"])
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    for case in json.loads(sys.argv[1]):
        signal.alarm(PATIENCE)
        print(json.dumps(call(case)), flush=True)
