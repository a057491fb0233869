"""The memory of a worker: the most that it ever used, and what its device has left."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import torch

from halowire.events import SETUP
from halowire.wire import Transport

CPU = torch.device("cpu")


def peak_memory(device: torch.device = CPU) -> int:
    """The most memory that this worker used at once on ``device``, in bytes: of a GPU, that of its tensors.

    On the CPU it is the largest resident set of this process. Linux keeps this peak per program in ``VmHWM``. The peak
    of ``getrusage`` outlives ``exec``, so that a worker would report the peak of the launcher, which held the graph.
    """
    if device.type != "cpu":
        return int(torch.get_device_module(device).max_memory_allocated(device))
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE)
        if found:
            return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def free_memory(device: torch.device) -> int:
    """Bytes that new tensors can take on ``device``, which is not the CPU: what is free, and what torch holds idle."""
    module = torch.get_device_module(device)
    idle = module.memory_reserved(device) - module.memory_allocated(device)
    return int(module.mem_get_info(device)[0]) + int(idle)


def largest_memory(transport: Transport, device: torch.device = CPU) -> int:
    """The largest peak memory of any worker, in bytes."""
    each = torch.zeros(transport.size, dtype=torch.int64)
    each[transport.rank] = peak_memory(device)
    return int(transport.all_reduce(each, "reduction of the memory", SETUP).max())
