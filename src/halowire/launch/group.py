"""Joining the process group: from torchrun's environment, or alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from halowire.errors import InputError, LateError
from halowire.launch.interface import choose_interface
from halowire.schedules.mesh import forget_circles
from halowire.wire import Transport


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
        return Place(
            rank=_variable("RANK", 0),
            size=_variable("WORLD_SIZE", 1),
            local_rank=_variable("LOCAL_RANK", 0),
            local_size=_variable("LOCAL_WORLD_SIZE", 1),
            restarts=_variable("TORCHELASTIC_RESTART_COUNT", 0),
        )


def launched() -> bool:
    """Whether a launcher (torchrun, or halowire's own) started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def choose_device(setting: str, place: Place) -> torch.device:
    """``auto`` takes CUDA where there is a GPU for every local worker."""
    available = torch.cuda.is_available() and torch.cuda.device_count() >= place.local_size
    if setting == "cuda" and not available:
        raise InputError(
            f"--device cuda needs a GPU for every worker here ({place.local_size}), but torch sees "
            f"{torch.cuda.device_count()}; use --device cpu"
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
    master = _master()
    network = choose_interface(os.environ["MASTER_ADDR"])
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
    limit = timedelta(seconds=deadline)
    try:
        store, rank, size = next(rendezvous("env://", timeout=limit))
        # The launcher keeps its store when it restarts workers: without a prefix they would find the dead ones in it.
        store = PrefixStore(f"halowire/start-{place.restarts}", store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=limit)
        transport = Transport(deadline=deadline)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise LateError(f"rank {place.rank} cannot join the {place.size} workers at {master}: {reason}") from error
    try:
        yield transport, network
        transport.settle()
    finally:
        forget_circles()
        transport.forget()
        dist.destroy_process_group()


def _master() -> str:
    """Where the workers meet; torchrun sets it, a person may forget it."""
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if missing:
        raise InputError(f"RANK and WORLD_SIZE are set, but not {' and '.join(missing)}; torchrun sets all of them")
    return f"{os.environ['MASTER_ADDR']}:{_variable('MASTER_PORT', 0)}"


def _variable(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise InputError(f"the environment variable {name} is {text!r}; expected a whole number, as torchrun sets it")
    return int(text)
