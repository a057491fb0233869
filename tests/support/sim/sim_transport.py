"""halowire's transports on the simulated device: by a stand-in for NCCL, or by way of the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from halowire.wire import Circle, NcclTransport, PinnedTransport, Transport
from tests.support.sim.fake_nccl import FakeNccl
from tests.support.sim.sim_tensor import SIM
from tests.support.sim.simulation import Simulation
from tests.support.sim.stream_watch import StreamWatch

_running: list[FakeNccl] = []
_by_host: list[Simulation] = []


class SimTransport(NcclTransport):
    """Tells the stand-in for NCCL what every operation is about."""

    def _launch(
        self, group: dist.ProcessGroup | None, label: str, operation: Callable[[], list[Any]], rank: int | None = None
    ) -> tuple[dist.Work, ...]:
        with nccl_here().about(label.partition(", chunk")[0]):  # every part has a chunk of its own in work
            return super()._launch(group, label, operation, rank)

    def _abort(self) -> None:
        nccl_here().abort()


@contextmanager
def nccl_simulated(apart: bool = False) -> Iterator[Simulation]:
    """A block with the simulated device and NCCL between its workers, who all enter it together.

    ``apart``: with process groups of its own, for a test that leaves messages behind in them.
    """
    with Simulation() as simulation, FakeNccl(simulation) as nccl:
        nccl.apart = apart
        _running.append(nccl)
        try:
            yield simulation
        finally:
            _running.pop()


def nccl_here() -> FakeNccl:
    """The stand-in for NCCL of the block."""
    return _running[-1]


@contextmanager
def pinned_simulated() -> Iterator[Simulation]:
    """A block with the simulated device, whose rows travel by way of the host."""
    with Simulation() as simulation:
        watch = StreamWatch()
        simulation.watch_streams(watch)  # which lets no message leave from memory of the device
        _by_host.append(simulation)
        try:
            yield simulation
            watch.refuse_let_go()
        finally:
            _by_host.pop()


def transport_of(device: str, deadline: float = 60.0) -> Transport:
    """The transport for rows on ``device``: on the simulated device that of the block it is called in."""
    place = torch.device(SIM, 0)
    if device == SIM and _running:
        circle = Circle.of(range(dist.get_world_size()), deadline) if _running[-1].apart else None
        return SimTransport(deadline=deadline, circle=circle, device=place)
    if device == SIM and _by_host:
        return PinnedTransport(deadline=deadline, device=place)
    return Transport(deadline=deadline)
