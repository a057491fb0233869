"""The sockets on which processes of this machine listen, as the system lists them."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp."""


def listening_at(process: int) -> list[tuple[str, int]]:
    """The address and port of every TCP socket on which ``process`` listens."""
    own = {_inode(file) for file in Path(f"/proc/{process}/fd").iterdir()}
    found = []
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS and fields[9] in own:
                address, port = fields[1].split(":")
                found.append((_address(address), int(port, 16)))
    return found


def _inode(file: Path) -> str:
    """The inode of the socket behind an open file; empty for other files."""
    try:
        return str(file.readlink()).removeprefix("socket:[").removesuffix("]")
    except OSError:
        return ""


def _address(text: str) -> str:
    """The address of the hexadecimal ``text``: words of 32 bits, each in the byte order of the machine."""
    words = [bytes.fromhex(text[start : start + 8]) for start in range(0, len(text), 8)]
    data = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return str(ipaddress.ip_address(data))
