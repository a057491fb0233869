"""Streams of a device: the order of its work, seen from the host, without the host waiting for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import torch
from torch import Tensor


class Mark(Protocol):
    """A point in the work of a stream."""

    def query(self) -> bool:
        """Whether the device has passed the mark."""

    def synchronize(self) -> None:
        """Let the host wait until the device has passed the mark."""


class Streams(Protocol):
    """The stream on which rows are computed, the current one, and one beside it for copies."""

    def mark(self) -> Mark:
        """Mark the work that the current stream has been given so far."""

    def after(self, mark: Mark) -> None:
        """Let what the current stream is given from now on run after ``mark``."""

    def aside(self) -> AbstractContextManager[None]:
        """Give the work of the block to the stream beside, after all that the current stream has been given so far."""

    def host_memory(self, nbytes: int) -> Tensor:
        """uint8 ``[nbytes]`` of the host from and to which the device copies while the host goes on."""


def streams_of(device: torch.device) -> Streams:
    """The streams of ``device``."""
    return CudaStreams(device) if device.type == "cuda" else OneStream()


class CudaStreams:
    """The streams of a GPU; ROCm's have the same names in torch."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._beside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def mark(self) -> Mark:
        """An event that is recorded in the current stream."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def after(self, mark: Mark) -> None:
        """The current stream waits for the event; the host does not."""
        assert isinstance(mark, torch.cuda.Event)
        torch.cuda.current_stream(self._device).wait_event(mark)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """The stream beside waits for the current one, and is current in the block."""
        self._beside.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._beside):
            yield

    def host_memory(self, nbytes: int) -> Tensor:
        """Pinned memory: a copy from or to other memory would make the host wait."""
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)


class Passed:
    """A mark that the device has passed already."""

    def query(self) -> bool:
        """Say so."""
        return True

    def synchronize(self) -> None:
        """Do nothing."""


class OneStream:
    """A device that finishes every operation before the host goes on."""

    def mark(self) -> Mark:
        """A mark that is passed."""
        return Passed()

    def after(self, mark: Mark) -> None:
        """Do nothing: all work runs in one order."""

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Do nothing: there is no other stream."""
        yield

    def host_memory(self, nbytes: int) -> Tensor:
        """Plain memory."""
        return torch.empty(nbytes, dtype=torch.uint8)
