"""The device that is proven, and how its host waits are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from halowire.launch import Place
from halowire.training import RECIPES

WAITS = ("StreamSynchronize", "EventSynchronize", "DeviceSynchronize", "MemcpyWithStream")
"""How the names of the driver's calls end by which the host waits for the device: CUDA's and HIP's.

ROCm's build of torch copies to the host by ``hipMemcpyWithStream``, which waits itself.
"""
END = "halowire: end of an epoch"


class WaitsByEpoch(Protocol):
    """An observer of training, which knows afterwards how often the host waited in every epoch."""

    per_epoch: list[int]

    def epoch(self, epoch: int, loss: float, seconds: float, wire_bytes: int) -> None:
        """Hear that an epoch is over."""

    def evaluated(self, epoch: int, metrics: dict[str, float]) -> None:
        """Hear that an evaluation is over."""


@dataclass(frozen=True)
class Subject:
    """A device, and what is needed to examine it.

    Attributes:
        device: the device of this worker.
        shared: another worker has the same device; NCCL refuses that, so that rows travel through the host's memory.
        watch: a block in which host waits are counted; gives the observer that says when an epoch ends.
        widths: columns of the rows of the kernels' cases: a power of two, and a number that fills no tile.
        recipes: the recipes that are compared.
        rows: rows of the matrices by which kernels are timed.
    """

    device: torch.device
    watch: Callable[[], AbstractContextManager[WaitsByEpoch]]
    shared: bool = False
    widths: tuple[int, ...] = (128, 47)
    recipes: tuple[str, ...] = tuple(RECIPES)
    rows: int = 1 << 19


class Profiled:
    """Marks the ends of epochs and evaluations in a profile, between which the host's waits are counted."""

    def __init__(self) -> None:
        self.per_epoch: list[int] = []
        self._is_epoch: list[bool] = []

    def epoch(self, epoch: int, loss: float, seconds: float, wire_bytes: int) -> None:
        """Mark the end of an epoch."""
        self._mark(is_epoch=True)

    def evaluated(self, epoch: int, metrics: dict[str, float]) -> None:
        """Mark the end of an evaluation, whose waits are left out."""
        self._mark(is_epoch=False)

    def _mark(self, is_epoch: bool) -> None:
        self._is_epoch.append(is_epoch)
        with record_function(END):
            pass

    def count(self, events: list[tuple[str, float]]) -> None:
        """Count the waits among ``events``, names and times of a profile, for every epoch."""
        waits = 0
        ends = iter(self._is_epoch)
        for name, _ in sorted(events, key=lambda event: event[1]):
            if name == END:
                if next(ends):
                    self.per_epoch.append(waits)
                waits = 0
            elif name.endswith(WAITS):
                waits += 1


@contextmanager
def profiled() -> Iterator[Profiled]:
    """Count host waits by torch's profiler, which sees every call of the driver."""
    found = Profiled()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as watched:
        yield found
    found.count([(event.name, event.time_range.start) for event in watched.events() or ()])


def this_gpu(place: Place) -> Subject:
    """The GPU of the worker at this ``place``; where its machine has fewer GPUs than workers, they share them."""
    count = torch.cuda.device_count()
    return Subject(torch.device("cuda", place.local_rank % count), profiled, shared=place.local_size > count)
