"""Agreement: a step that every worker does on its own fails on all of them, or on none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from halowire.errors import InputError, system_error
from halowire.wire import Transport

LONGEST = 500
Result = TypeVar("Result")


def agreed(step: Callable[[], Result], transport: Transport, where: str) -> Result:
    """``step()``; where it fails on some workers, all raise the message of the first of them.

    Otherwise the others would wait for a worker that has gone, and complain about that instead of the cause.
    """
    message = ""
    try:
        result = step()
    except InputError as error:
        message = str(error)
    except OSError as error:
        message = system_error(error)
    said = list(message.encode()[:LONGEST])
    notes = torch.zeros(transport.size, LONGEST, dtype=torch.uint8)
    notes[transport.rank, : len(said)] = torch.tensor(said, dtype=torch.uint8)
    transport.all_reduce(notes, where, account=None)
    for note in notes:
        if note.any():
            raise InputError(bytes(note.tolist()).rstrip(b"\0").decode(errors="replace"))
    return result
