"""The network between the workers: the interface that leads to the others, and how fast every pair of workers is.

The interface is chosen once, so that all traffic takes the same way.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import time

import torch
import torch.distributed as dist

from halowire.errors import InputError
from halowire.wire import Transport

SIOCGIFADDR = 0x8915
VARIABLE = "GLOO_SOCKET_IFNAME"
PINGS = 20
PAYLOAD = 4 << 20


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
    if chosen := os.environ.get(VARIABLE):
        return f"interface {chosen} (from {VARIABLE})"
    name, own = interface_to(host)
    if name:
        os.environ[VARIABLE] = name
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
