"""On which machines the workers are: as many as a setting says, or as their launcher does."""

from __future__ import annotations

import torch

from halowire.events import SETUP
from halowire.launch.place import Place
from halowire.wire import Machines, Transport


def find_machines(transport: Transport, place: Place, hosts: int) -> Machines:
    """The machines of all workers; with ``hosts`` 0, those of the launcher. All workers call this together.

    A launcher numbers the workers of a machine one after another, so that a machine is known by its first rank. Where
    what the workers tell does not fit together, no machines are told apart.
    """
    if hosts:
        return Machines.split(transport.size, hosts)
    told = torch.zeros(transport.size, 2, dtype=torch.int64)
    told[transport.rank] = torch.tensor([place.rank - place.local_rank, place.local_size])
    first, size = transport.all_reduce(told, "search for the machines", SETUP).unbind(1)
    _, machine, count = torch.unique(first, return_inverse=True, return_counts=True)
    if not torch.equal(count[machine], size):
        machine = torch.zeros_like(machine)
    return Machines(tuple(machine.tolist()))


def machine_words(machines: Machines) -> str:
    """Words on the machines for the console; empty where there is one."""
    return f"; {machines.count} machines" if machines.count > 1 else ""
