"""Joining the other workers for the rest of the program, for scripts that own their loop."""

from __future__ import annotations

import atexit
import contextlib
import sys

import torch
import torch.distributed as dist

from halowire.launch.group import joined, launched
from halowire.wire import Transport


def join(device: torch.device, deadline: float = 600.0) -> Transport:
    """The connection to the other workers: of the process group there is, else of one that ends with the program."""
    if dist.is_initialized() or not launched():
        return Transport(deadline=deadline)
    stack = contextlib.ExitStack()
    transport, _ = stack.enter_context(joined(device, deadline))

    def leave() -> None:
        if getattr(sys, "last_value", None) is not None:
            # After an error the others may never take what was sent to them.
            transport.forget()
        stack.close()

    atexit.register(leave)
    return transport
