"""Joining the process group: from torchrun's environment, or alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from halowire.exchange import Transport
from halowire.kernels import InputError
from halowire.launch.interface import choose_interface


@dataclass(frozen=True)
class Place:
    """Where this process stands among the workers."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    restarts: int

    @staticmethod
    def here() -> Place:
        """From the environment that torchrun sets; alone without it."""
        names = {"rank": "RANK", "size": "WORLD_SIZE", "local_rank": "LOCAL_RANK", "local_size": "LOCAL_WORLD_SIZE"}
        found = {field: int(os.environ.get(name, "1" if "size" in field else "0")) for field, name in names.items()}
        return Place(**found, restarts=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")))


def launched() -> bool:
    """Whether a launcher (torchrun, or halowire's own) started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def choose_device(setting: str, place: Place) -> torch.device:
    """``auto`` takes CUDA where there is a GPU for every local worker."""
    available = torch.cuda.is_available() and torch.cuda.device_count() >= place.local_size
    if setting == "cuda" and not available:
        raise InputError(
            f"--device cuda needs {place.local_size} GPUs here, torch sees {torch.cuda.device_count()}; use cpu"
        )
    return torch.device("cuda", place.local_rank) if available and setting != "cpu" else torch.device("cpu")


def set_threads(setting: int, place: Place) -> int:
    """Use ``setting`` threads, or this worker's share of the cores; how many."""
    threads = setting or max(1, len(os.sched_getaffinity(0)) // place.local_size)
    torch.set_num_threads(threads)
    return threads


@contextmanager
def joined(device: torch.device, deadline: float) -> Iterator[tuple[Transport, str]]:
    """Join the other workers for the block; the transport, and a sentence on the network."""
    place = Place.here()
    if place.size == 1:
        yield Transport(deadline=deadline), "one worker, no network"
        return
    network = choose_interface(os.environ.get("MASTER_ADDR", "localhost"))
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, timeout=timedelta(seconds=deadline))
    try:
        yield Transport(deadline=deadline), network
    finally:
        dist.destroy_process_group()
