"""A lane of the stand-in for NCCL: the stream of one communicator, which runs one operation after another."""

from __future__ import annotations

import queue
import threading
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from tests.support.sim.rules import DeviceError

ACKNOWLEDGED = 1 << 30
"""Added to a lane's tag for the words that a receive has begun."""


class Parcel(NamedTuple):
    """What goes to the rank ``peer``."""

    peer: int
    data: Tensor


class Lane:
    """Moves parcels between processes over Gloo, in the order in which they were given to the lane."""

    def __init__(self, name: str, members: tuple[int, ...], carrier: dist.ProcessGroup, tag: int) -> None:
        """``carrier`` connects all processes; ``tag`` is the lane's own, and the same on all ``members``."""
        self.name = name
        self.members = members
        self.errors: list[BaseException] = []
        self._carrier = carrier
        self._tag = tag
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name=f"lane {name}", daemon=True)
        self._thread.start()

    def run(
        self, label: str, parcels: Sequence[Parcel], sizes: dict[int, int]
    ) -> tuple[threading.Event, dict[int, Tensor]]:
        """Exchange ``parcels`` for ``sizes[r]`` bytes of each rank ``r``; gives an event for the end and what comes."""
        done, found = threading.Event(), dict[int, Tensor]()

        def job() -> None:
            self._exchange(label, parcels, sizes, found)
            done.set()

        self._jobs.put(job)
        return done, found

    def end(self, wait: bool) -> None:
        """End the thread; with ``wait``, when all that was given to it is done, and raise what went wrong."""
        self._jobs.put(None)
        if wait:
            self._thread.join(30)
        if self.errors:
            raise self.errors[0]

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except BaseException as error:
                self.errors.append(error)
                return

    def _exchange(self, label: str, parcels: Sequence[Parcel], sizes: dict[int, int], found: dict[int, Tensor]) -> None:
        works = []
        for parcel in parcels:
            data = parcel.data.reshape(-1).view(torch.uint8)
            works.append(dist.isend(_notice(label, data.numel()), parcel.peer, self._carrier, self._tag))
            if data.numel():
                works.append(dist.isend(data, parcel.peer, self._carrier, self._tag))
        for peer, size in sizes.items():
            found[peer] = self._receive(label, peer, size)
            works.append(dist.isend(torch.zeros(1), peer, self._carrier, self._tag | ACKNOWLEDGED))
        for parcel in parcels:
            dist.recv(torch.zeros(1), parcel.peer, self._carrier, self._tag | ACKNOWLEDGED)
        for work in works:
            assert work is not None
            work.wait()

    def _receive(self, label: str, peer: int, size: int) -> Tensor:
        notice = torch.zeros(2, dtype=torch.int64)
        dist.recv(notice, peer, self._carrier, self._tag)
        told = int(notice[1])
        data = torch.empty(told, dtype=torch.uint8)
        if told:
            dist.recv(data, peer, self._carrier, self._tag)
        if notice.tolist() == _notice(label, size).tolist():
            return data
        # The peer goes on, as it would on NCCL; the error is raised at the wait.
        words = f"{label} ({size} bytes) meets another message of rank {peer} ({told} bytes)"
        self.errors.append(DeviceError(f"on the lane of ranks {self.members}, {words}"))
        return torch.zeros(size, dtype=torch.uint8)


def _notice(label: str, size: int) -> Tensor:
    """What a message says of itself: a hash of its name, and its size."""
    return torch.tensor([zlib.crc32(label.encode()), size])
