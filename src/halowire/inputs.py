"""Files that others wrote are opened with care: ordinary files only, of a bounded size, and JSON that is not a trap."""

from __future__ import annotations

import json
import os
import resource
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}  # fmt: skip
MOST_JSON = 1 << 26
"""Bytes of the largest JSON file that is read: the manifest of a thousand parts has a quarter of them."""
LONGEST_LINE = 1 << 24
"""Bytes of the longest line that is read from a text file: a node with a million features has fewer."""


def kind_of(path: Path) -> str:
    """What is at ``path``, in words: a folder, a named pipe, a socket, a device; empty for an ordinary file."""
    kind = stat.S_IFMT(path.stat().st_mode)
    return "" if kind == stat.S_IFREG else KINDS.get(kind, "no file")


def file_size(path: Path) -> int:
    """The bytes of an ordinary file; a folder, pipe, socket or device raises a `ValueError` that says what it is.

    Asked before a file is opened, because opening a pipe waits for its other end, and reading a device may never end.
    """
    if kind := kind_of(path):
        raise ValueError(f"it is {kind}, expected an ordinary file")
    return path.stat().st_size


def open_file(path: Path) -> IO[bytes]:
    """Open an ordinary file to read its bytes; anything else raises a `ValueError`, and nothing waits."""
    file_size(path)
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def read_json(path: Path, most: int = MOST_JSON) -> Any:
    """The values in a JSON file; raises `OSError` where it cannot be opened and `ValueError` where it is no good JSON.

    Refused are more than ``most`` bytes, values that are nested too deeply, and NaN and infinity, which JSON lacks.
    """
    with open_file(path) as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise ValueError(f"it has more than {most} bytes, expected a small file")
    try:
        return json.loads(text.decode("utf-8"), parse_constant=_refuse)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def json_checksum(values: Any) -> int:
    """The CRC-32 of JSON values, whatever their spacing and the order of their names in a file."""
    return zlib.crc32(json.dumps(values, sort_keys=True, separators=(",", ":")).encode())


def fits_checksum(values: Any, told: Any) -> bool:
    """Whether ``told``, any JSON value that a file gives as the checksum of ``values``, is their checksum."""
    try:
        return type(told) is int and told == json_checksum(values)
    except RecursionError:  # values that could just be read may be nested too deeply to be written
        return False


def read_lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """The lines of an ordinary file one after the other; lines of more than ``longest`` bytes are left out."""
    with open_file(path) as file:
        while line := file.readline(longest):
            if len(line) < longest or line.endswith(b"\n"):
                yield line
                continue
            while rest := file.readline(longest):
                if rest.endswith(b"\n"):
                    break


def memory_bytes() -> int:
    """The memory that this process can have; what cannot fit is refused before it is allocated."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    return machine if allowed == resource.RLIM_INFINITY else min(machine, allowed)


def _refuse(constant: str) -> Any:
    raise ValueError(f"it holds {constant}, expected finite numbers")
