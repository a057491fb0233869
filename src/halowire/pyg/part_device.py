"""The device of a part: all workers have the same kind, and a script says which one it is."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.launch import device_here, refuse_other_kinds, say_device, told_by_store
from halowire.training import agreed, gather_words, placed_memory, refuse_too_large
from halowire.wire import Transport

CHOICE = "choice of the devices"


def part_device(wanted: str, transport: Transport) -> torch.device:
    """The device of this worker's part by the setting ``wanted``; refused where another worker has another kind."""
    device = agreed(lambda: device_here(wanted), transport, CHOICE)
    refuse_other_kinds(gather_words(device.type, transport, CHOICE, account=None))
    if transport.size == 1:  # several workers have said it when they joined
        _say_once(device)
    return device


@cache
def _say_once(device: torch.device) -> None:
    say_device(Transport(), device, "")


def refuse_crowded(features: int, edges: int, device: torch.device, rank: int) -> None:
    """Refuse to put so many bytes of ``features`` and ``edges`` on a ``device`` that has no room for them."""
    # Only a part of the need is known, so that there is a reason to refuse, or nothing to warn of.
    refuse_too_large(placed_memory(features, edges), device, rank, lambda text: None)


def refuse_crowded_together(features: int, edges: int, device: torch.device, transport: Transport) -> None:
    """The same where the others do not wait to hear whether this worker goes on: if one refuses, all do.

    They hear it through the store, so that a device sends as many bytes as the CPU, which refuses nothing.
    """
    words = ""
    try:
        refuse_crowded(features, edges, device, transport.rank)
    except InputError as error:
        words = str(error)
    for said in told_by_store(words, transport.deadline):
        if said:
            raise InputError(said)


def bytes_of(tensors: Iterable[Any]) -> int:
    """The bytes that those of ``tensors`` will take on a device that are on the host."""
    found = (value for value in tensors if isinstance(value, Tensor) and value.device.type == "cpu")
    return sum(value.nbytes for value in found if value.layout == torch.strided)
