"""The TCP ports on which a process of this machine listens, as the system lists them."""

from __future__ import annotations

from pathlib import Path

LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp."""


def ports_of(process: int) -> list[int]:
    """The ports on which ``process`` listens."""
    own = set()
    for file in Path(f"/proc/{process}/fd").iterdir():
        try:
            own.add(str(file.readlink()).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue
    found = []
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS and fields[9] in own:
                found.append(int(fields[1].rpartition(":")[2], 16))
    return found
