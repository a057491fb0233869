"""Streams of a device: the order of its work, seen from the host, without the host waiting for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor


class Mark(Protocol):
    """A point in the work of a stream."""

    def query(self) -> bool:
        """Whether the device has passed the mark."""

    def synchronize(self) -> None:
        """Let the host wait until the device has passed the mark."""


class Streams:
    """The stream on which rows are computed, the current one, and one beside it for copies.

    torch's module of the device (``torch.cuda``, also for ROCm) makes streams and events.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._module = torch.get_device_module(device)
        self._beside = self._module.Stream(device)

    def mark(self) -> Mark:
        """Mark the work that the current stream has been given so far."""
        event: Mark = self._module.Event()
        event.record(self._module.current_stream(self._device))  # type: ignore[attr-defined]
        return event

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Give the work of the block to the stream beside, after all that the current stream has been given so far."""
        self._beside.wait_stream(self._module.current_stream(self._device))
        with self._module.stream(self._beside):
            yield

    def host_memory(self, nbytes: int) -> Tensor:
        """uint8 ``[nbytes]`` of the host from and to which the device copies while the host goes on.

        It is pinned: a copy from or to other memory would make the host wait.
        """
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
