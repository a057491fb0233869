"""Workers tell each other words: all of them hear what went wrong on one, and what it was."""

from __future__ import annotations

import torch

from halowire.events import SETUP
from halowire.wire import Transport

LONGEST = 400
"""Most bytes of a sentence that a worker tells the others."""


def gather_bytes(data: bytes, size: int, transport: Transport, where: str) -> list[bytes]:
    """The ``data`` of every worker, filled up to ``size`` bytes with zeros; all workers call this together."""
    table = torch.zeros(transport.size, size, dtype=torch.uint8)
    if data:
        table[transport.rank, : len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    transport.all_reduce(table, where, SETUP)
    return [row.numpy().tobytes() for row in table]


def gather_words(text: str, transport: Transport, where: str) -> list[str]:
    """What every worker says, in rank order; empty for those that say nothing. All workers call this together."""
    told = gather_bytes(text.encode()[:LONGEST], LONGEST, transport, where)
    return [words.rstrip(b"\0").decode(errors="replace") for words in told]
