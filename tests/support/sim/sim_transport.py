"""halowire's transport for NCCL on the simulated device, with the stand-in for NCCL below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from halowire.wire import NcclTransport, Transport
from tests.support.sim.counts import Counts
from tests.support.sim.fake_nccl import FakeNccl
from tests.support.sim.sim_tensor import SIM
from tests.support.sim.simulation import Simulation

_running: list[FakeNccl] = []


class SimTransport(NcclTransport):
    """Tells the stand-in for NCCL what every operation is about."""

    def _launch(
        self, group: dist.ProcessGroup | None, label: str, operation: Callable[[], list[Any]], rank: int | None = None
    ) -> tuple[dist.Work, ...]:
        with _running[-1].about(label.partition(", chunk")[0]):  # every part has a chunk of its own in work
            return super()._launch(group, label, operation, rank)

    def _abort(self) -> None:
        _running[-1].abort()


@contextmanager
def nccl_simulated(counts: Counts | None = None) -> Iterator[tuple[Simulation, FakeNccl]]:
    """A block with the simulated device and NCCL between its workers, who all enter it together."""
    with Simulation(counts) as simulation, FakeNccl(simulation) as nccl:
        _running.append(nccl)
        try:
            yield simulation, nccl
        finally:
            _running.pop()


def transport_of(device: str, deadline: float = 60.0) -> Transport:
    """The transport for rows on ``device``: within :func:`nccl_simulated`, on the simulated device that of NCCL."""
    if device != SIM or not _running or dist.get_world_size() == 1:
        return Transport(deadline=deadline)
    return SimTransport(deadline=deadline, device=torch.device(SIM, 0))
