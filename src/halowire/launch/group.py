"""Joining the other workers: for a block, or for the rest of the program."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from halowire.errors import InputError, LateError
from halowire.launch.network import choose_interface
from halowire.launch.place import Place, launched, whole_variable
from halowire.schedules import forget_circles
from halowire.wire import Transport


@contextmanager
def joined(device: torch.device, deadline: float) -> Iterator[tuple[Transport, str]]:
    """Join the other workers for the block; gives the transport, and a sentence about the network for the console."""
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


def join(device: torch.device, deadline: float = 600.0) -> Transport:
    """The transport to the other workers, for scripts that have their own training loop.

    It uses the process group that exists, else a new one that ends with the program.
    """
    if dist.is_initialized() or not launched():
        return Transport(deadline=deadline)
    stack = contextlib.ExitStack()
    transport, _ = stack.enter_context(joined(device, deadline))

    def leave() -> None:
        if getattr(sys, "last_value", None) is not None:
            # After an error the others may never take what was sent to them.
            transport.forget()
        stack.close()

    atexit.register(leave)
    return transport


def _master() -> str:
    """The address where the workers meet. torchrun sets it; who sets the variables by hand may forget it."""
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if missing:
        raise InputError(f"RANK and WORLD_SIZE are set, but not {' and '.join(missing)}; torchrun sets all of them")
    return f"{os.environ['MASTER_ADDR']}:{whole_variable('MASTER_PORT', 0)}"
