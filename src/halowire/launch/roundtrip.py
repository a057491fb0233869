"""A round trip between all workers: latency and speed of every pair, before anything depends on them."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

from halowire.wire import Transport

PINGS = 20
PAYLOAD = 4 << 20


def measure_pairs(transport: Transport) -> list[tuple[int, int, float, float]]:
    """(rank, rank, seconds of a round trip, bytes per second) of every pair of workers, on rank 0."""
    size = transport.size
    found = torch.zeros(size, size, 2, dtype=torch.float64)
    for first in range(size):
        for second in range(first + 1, size):
            if transport.rank in (first, second):
                peer = second if transport.rank == first else first
                trip = min(_round_trip(transport.rank < peer, peer, torch.zeros(1)) for _ in range(PINGS))
                load = min(_round_trip(transport.rank < peer, peer, torch.zeros(PAYLOAD // 4)) for _ in range(3))
                if transport.rank == first:
                    found[first, second] = torch.tensor([trip, 2 * PAYLOAD / load])
            transport.barrier("round trip")
    transport.all_reduce(found, "round trip")
    return [(i, j, *found[i, j].tolist()) for i in range(size) for j in range(i + 1, size)]


def _round_trip(leads: bool, peer: int, payload: torch.Tensor) -> float:
    start = time.perf_counter()
    if leads:
        dist.send(payload, peer)
        dist.recv(payload, peer)
    else:
        dist.recv(payload, peer)
        dist.send(payload, peer)
    return time.perf_counter() - start
