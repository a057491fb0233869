"""Workers tell each other words: all of them hear what went wrong on one, and what it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from halowire.errors import InputError, system_error
from halowire.events import SETUP
from halowire.wire import Transport

LONGEST = 1_000
"""Most bytes of a sentence that a worker tells the others."""
Result = TypeVar("Result")


def gather_bytes(data: bytes, size: int, transport: Transport, where: str, account: str | None = SETUP) -> list[bytes]:
    """The ``data`` of every worker, filled up to ``size`` bytes with zeros; all workers call this together."""
    table = torch.zeros(transport.size, size, dtype=torch.uint8)
    if data:
        table[transport.rank, : len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    transport.all_reduce(table, where, account)
    return [row.numpy().tobytes() for row in table]


def gather_words(
    text: str, transport: Transport, where: str, account: str | None = SETUP, longest: int = LONGEST
) -> list[str]:
    """What every worker says, in rank order; empty for those that say nothing. All workers call this together.

    Of a longer text only the first ``longest`` bytes travel.
    """
    told = gather_bytes(text.encode()[:longest], longest, transport, where, account)
    return [words.rstrip(b"\0").decode(errors="replace") for words in told]


def agreed(step: Callable[[], Result], transport: Transport, where: str) -> Result:
    """The result of ``step()``; if it fails on some workers, all workers raise the message of the first of them.

    Otherwise the other workers would wait for a worker that has gone, and report its absence instead of the cause.
    """
    message = ""
    try:
        result = step()
    except InputError as error:
        message = str(error)
    except OSError as error:
        message = system_error(error)
    for words in gather_words(message, transport, where, account=None):
        if words:
            raise InputError(words)
    return result
