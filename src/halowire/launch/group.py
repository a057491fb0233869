"""Joining the other workers for a block, and measuring the network between them."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store
from torch.distributed.distributed_c10d import PrefixStore

from halowire.errors import LateError, without_source
from halowire.launch.carrier import carrier_words
from halowire.launch.device_choice import Means, agree_on_means, means_of
from halowire.launch.failure import tell_launcher
from halowire.launch.joining import Joining
from halowire.launch.meeting import meeting_place, open_store
from halowire.launch.place import Place
from halowire.launch.token import prove, token_here
from halowire.launch.whereabouts import find_machines, machine_words
from halowire.schedules import forget_circles
from halowire.wire import NcclTransport, Transport, hold_watchdog, leave_group, transport_on

PINGS = 20
PAYLOAD = 4 << 20
# How often this process has joined the others.
_JOINED = itertools.count()


class Joined(NamedTuple):
    """The transport to the other workers, a sentence about the network for the console, and this worker's device."""

    transport: Transport
    network: str
    device: torch.device


@contextmanager
def joined(wanted: str | torch.device, deadline: float, setting: str = "auto", hosts: int = 0) -> Iterator[Joined]:
    """Join the other workers for the block.

    ``wanted`` is the device of this worker, or the setting by which it is chosen, see :func:`choose_device`: a worker
    that has no such device tells the others, and all refuse. The ``setting`` says what carries rows between devices,
    see :func:`choose_carrier`; ``hosts`` says on how many machines the workers are, see :func:`find_machines`.
    """
    place = Place.here()
    choose = partial(means_of, wanted, setting, place)
    if place.size == 1:
        yield Joined(Transport(deadline=deadline), "one worker, no network", choose().device)
        return
    joining = Joining(place, deadline)
    token = token_here(place, deadline)
    joining.where, network = meeting_place()
    # torchrun keeps its store when it restarts workers, or when a program joins twice: without a prefix the workers
    # would find entries of dead ones.
    prefix = f"halowire/start-{place.restarts}/{next(_JOINED)}"

    def meet() -> tuple[int, Means]:
        store = PrefixStore(prefix, open_store(place, timedelta(seconds=joining.left)))
        store.set_timeout(timedelta(seconds=deadline))  # of what is asked later
        run = prove(store, place.rank, place.size, token, joining.left, joining.miss)
        means = agree_on_means(store, place, choose, joining.left, joining.miss)
        if means.device.type == "cuda":
            torch.cuda.set_device(means.device)
        connected = means.device if means.carrier == "nccl" else None
        _connect(store, place, connected, timedelta(seconds=deadline))
        return run, means

    try:
        run, (device, carrier) = joining.run(meet)
        if device.type == "cuda":
            torch.cuda.set_device(device)  # once more: the current device is one of each thread
        transport = transport_on(device, deadline, run)
        transport.machines = find_machines(transport, place, hosts)
    except RuntimeError as error:
        reason, at = without_source(error), joining.where
        raise LateError(f"rank {place.rank} cannot join the {place.size} workers at {at}: {reason}") from error
    try:
        if isinstance(transport, NcclTransport):
            transport.flights.last_words = _last_words
        words = f"{network}{carrier_words(carrier, device)}{machine_words(transport.machines)}"
        yield Joined(transport, words, device)
        transport.settle()
    finally:
        forget_circles()
        transport.forget()
        leave_group()


def _connect(store: Store, place: Place, gpu: torch.device | None, limit: timedelta) -> None:
    """Make the default process group: Gloo for what is on the host, and NCCL for what is on this worker's ``gpu``."""
    backend = "gloo" if gpu is None else "cpu:gloo,cuda:nccl"
    # With its device given, NCCL connects the workers now, within the limit, and not at the first message.
    dist.init_process_group(backend, store=store, rank=place.rank, world_size=place.size, timeout=limit, device_id=gpu)
    hold_watchdog(dist.group.WORLD, limit.total_seconds())


def _last_words(text: str) -> None:
    """Tell the launcher, or else the user, why this process ends."""
    if not tell_launcher(text, lost=True):
        print(f"error: {text}", file=sys.stderr, flush=True)


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
