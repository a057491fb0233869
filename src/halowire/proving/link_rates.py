"""The links of a device: to the host's memory, and to the devices of the other workers."""

from __future__ import annotations

import time
from statistics import median

import torch

from halowire.errors import MessageError
from halowire.proving.kernel_proof import rate_of
from halowire.wire import Transport

PAYLOAD = 16 << 20
TURNS = 5
SHORT = 1024


def host_rates(device: torch.device) -> dict[str, float | str]:
    """Bytes per second between the memory of ``device`` and pinned memory of the host, or why there are none."""
    there = torch.empty(PAYLOAD, dtype=torch.uint8, device=device)
    here = torch.empty(PAYLOAD, dtype=torch.uint8, pin_memory=device.type == "cuda")
    return {
        "host to device": rate_of(device, lambda: there.copy_(here, non_blocking=True), PAYLOAD),
        "device to host": rate_of(device, lambda: here.copy_(there, non_blocking=True), PAYLOAD),
    }


def wire_rates(transport: Transport, device: torch.device) -> dict[str, float]:
    """Seconds of a short message from every worker to every other and back, and bytes per second of long ones.

    What arrives is compared with what was sent; all workers call this together.
    """
    short, long = (_turn(transport, device, nbytes) for nbytes in (SHORT, PAYLOAD))
    return {"round trip": 2 * short, "all to all": PAYLOAD * (transport.size - 1) / long}


def _turn(transport: Transport, device: torch.device, nbytes: int) -> float:
    """Median seconds in which every worker has sent ``nbytes`` to every other one."""
    size, rank = transport.size, transport.rank
    others = [0 if peer == rank else nbytes for peer in range(size)]
    rows = torch.full((nbytes * (size - 1),), rank, dtype=torch.uint8, device=device)
    times = []
    for _ in range(TURNS + 1):
        transport.barrier("round trip")
        start = time.perf_counter()
        arrived = transport.swap(rows, others, others, "round trip")
        said = arrived.view(-1, nbytes)[:, [0, -1]].tolist()  # the host waits here until all has arrived
        times.append(time.perf_counter() - start)
        wanted = [[peer, peer] for peer in range(size) if peer != rank]
        if said != wanted:
            raise MessageError(f"rank {rank} received rows that begin and end with {said}, but {wanted} were sent")
    return median(times[1:])
