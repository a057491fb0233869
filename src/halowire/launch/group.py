"""Joining the other workers, for a block or for the rest of the program, and the network between them.

The network interface that leads to the other workers is chosen once, so that all traffic uses the same one.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from halowire.errors import InputError, LateError
from halowire.launch.place import Place, launched, whole_variable
from halowire.schedules import forget_circles
from halowire.wire import Transport

SIOCGIFADDR = 0x8915
INTERFACE = "GLOO_SOCKET_IFNAME"
PINGS = 20
PAYLOAD = 4 << 20


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
        # The launcher keeps its store when it restarts workers: without a prefix they would find entries of dead ones.
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

    It uses the existing process group, or else a new one that ends with the program.
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
    """The address where the workers meet. torchrun sets it; a user who sets the variables by hand may forget it."""
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if missing:
        raise InputError(f"RANK and WORLD_SIZE are set, but not {' and '.join(missing)}; torchrun sets all of them")
    return f"{os.environ['MASTER_ADDR']}:{whole_variable('MASTER_PORT', 0)}"


def interface_to(host: str, port: int = 9) -> tuple[str, str]:
    """The interface on the route to ``host``, and this machine's address there; nothing is sent."""
    try:
        address = socket.gethostbyname(host)
    except (socket.gaierror, UnicodeError) as error:
        raise InputError(f"the host {host!r} is unknown here ({error}); check MASTER_ADDR") from None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, port))
        own = str(probe.getsockname()[0])
    for _, name in socket.if_nameindex():
        if _address_of(name) == own:
            return name, own
    # 127.0.0.2 and its like are reached from their own address, which no interface lists.
    return ("lo", own) if own.startswith("127.") else ("", own)


def choose_interface(host: str) -> str:
    """Set the interface for Gloo unless the user did; returns a sentence about it for the console."""
    if chosen := os.environ.get(INTERFACE):
        return f"interface {chosen} (from {INTERFACE})"
    name, own = interface_to(host)
    if name:
        os.environ[INTERFACE] = name
    return f"interface {name or 'unknown'} ({own}), on the route to {host}"


def measure_pairs(transport: Transport) -> list[tuple[int, int, float, float]]:
    """For every pair of workers: both ranks, the seconds of a round trip, and the bytes per second."""
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


def _address_of(name: str) -> str:
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)[20:24])
        except OSError:
            return ""
