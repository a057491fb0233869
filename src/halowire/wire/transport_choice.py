"""Which transport a worker uses: it follows from where the rows are, and from what the process group carries."""

from __future__ import annotations

import torch
import torch.distributed as dist

from halowire.errors import InputError
from halowire.wire.circle import DEFAULT_DEADLINE
from halowire.wire.transport import Transport
from halowire.wire.transport_nccl import NcclTransport
from halowire.wire.transport_pinned import PinnedTransport


def transport_on(device: torch.device, deadline: float = DEFAULT_DEADLINE, run: int = 0) -> Transport:
    """The transport to all workers for rows on ``device``.

    On the host Gloo carries them. Between GPUs it is NCCL if the process group has it, else Gloo by way of the host.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1 or device.type == "cpu":
        return Transport(deadline=deadline, run=run)
    carriers = carriers_of(dist.group.WORLD)
    if "cpu" not in carriers:
        raise InputError(
            f"the process group carries only {', '.join(carriers)}, but halowire also sends from the host; make it "
            'with init_process_group("cpu:gloo,cuda:nccl")'
        )
    carrier = carriers.get(device.type)
    if carrier == "nccl":
        return NcclTransport(deadline=deadline, run=run, device=device)
    if carrier == "gloo":
        return PinnedTransport(deadline=deadline, run=run, device=device)
    return Transport(deadline=deadline, run=run)  # for a device that torch does not know, as the simulated one


def carriers_of(group: dist.ProcessGroup | None) -> dict[str, str]:
    """The backend of ``group`` for every kind of device."""
    config = str(dist.get_backend_config(group))
    return dict(entry.split(":", 1) for entry in config.split(",")) if config else {}
