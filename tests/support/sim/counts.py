"""What a simulation counts: waits of the host, copies between the memories, messages, each with its file and line."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from halowire.wire.transport_pinned import COPIER

HERE = str(Path(__file__).parent)
LIBRARIES = ("/torch/", "/lib/python", "<")

Places = Counter[tuple[str, str]]
"""How often something happened, by its kind and by the file and line of the program that did it."""


@dataclass
class Counts:
    """What happened since the counts were made; threads may share them.

    Attributes:
        waits: the host waited for all work that the device had been given.
        beside: a thread that gives no work to the device waited for it, while the host went on.
        copies: bytes were copied from one memory to the other, whether or not the host waited.
        messages: a message or a sum left from memory of the device.
    """

    waits: Places = field(default_factory=Counter)
    beside: Places = field(default_factory=Counter)
    copies: Places = field(default_factory=Counter)
    messages: Places = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, places: Places, kind: str) -> None:
        """Count one event of ``kind`` at the line of the program that runs now."""
        where = line_of_the_program()
        with self._lock:
            places[kind, where] += 1

    def note_wait(self, kind: str) -> None:
        """Count a wait of ``kind`` in this thread."""
        in_copier = threading.current_thread().name.startswith(COPIER)
        self.note(self.beside if in_copier else self.waits, kind)

    def report(self) -> str:
        """All waits and copies, one per line, the most frequent first."""
        named = (("wait", self.waits), ("beside", self.beside), ("copy", self.copies), ("message", self.messages))
        lines = []
        for name, places in named:
            lines += [f"{number:5} {name:8} {where:45} {kind}" for (kind, where), number in places.most_common()]
        return "\n".join(lines)


def line_of_the_program() -> str:
    """``folder/file.py:line`` of the innermost frame that belongs neither to torch, to Python, nor to the simulation.

    Backward runs in threads of torch: there the frame is that of a backward function, if one runs.
    """
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(HERE) and not any(part in name for part in LIBRARIES):
            return f"{'/'.join(Path(name).parts[-2:])}:{frame.f_lineno}"
        frame = frame.f_back
    return "autograd"
