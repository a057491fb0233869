"""Scripts with a training loop of their own: they join the other workers once, until the program ends."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore

from halowire.launch.carrier import carrier_words
from halowire.launch.device_choice import Means, agree_on_means, choose_device, device_words
from halowire.launch.group import joined
from halowire.launch.place import Place, launched
from halowire.launch.whereabouts import find_machines
from halowire.wire import Transport, carriers_of, gpu_of, leave_group, transport_on

# The transport of each process group, which all parts of a script share: their messages are numbered together.
_TRANSPORTS: WeakKeyDictionary[dist.ProcessGroup, Transport] = WeakKeyDictionary()
# How often the workers have agreed on their devices over a process group of the script's own.
_AGREED = itertools.count()


def join(wanted: str | torch.device, deadline: float = 600.0) -> Transport:
    """The transport to the other workers, for scripts that have their own training loop, on the device ``wanted``.

    It uses the existing process group, or else a new one. All calls share one transport, and the groups end with the
    program, before the interpreter does.
    """
    if not dist.is_initialized() and not launched():
        return Transport(deadline=deadline)
    world = dist.group.WORLD if dist.is_initialized() else None
    if world is not None and world in _TRANSPORTS:
        return _TRANSPORTS[world]
    stack = contextlib.ExitStack()
    if world is None:
        transport, network, device = stack.enter_context(joined(wanted, deadline))
        say_device(transport, device, f"; {network}")
    else:
        transport = stack.enter_context(_left_at_the_end(_on_own_group(wanted, deadline)))
    if (group := dist.group.WORLD) is not None:
        _TRANSPORTS[group] = transport

    def leave() -> None:
        if getattr(sys, "last_value", None) is not None:
            # After an error the others may never take what was sent to them.
            transport.forget()
        stack.close()

    atexit.register(leave)
    return transport


def device_here(wanted: str | torch.device) -> torch.device:
    """The device of this worker of a script, given or by the setting ``wanted``; see `choose_device`.

    A process group that is bound to a GPU says which one it is.
    """
    if isinstance(wanted, torch.device):
        return wanted
    bound = gpu_of(dist.group.WORLD) if dist.is_initialized() else None
    return bound if bound is not None and wanted in ("auto", bound.type) else choose_device(wanted, place_here())


def place_here() -> Place:
    """The place of this process: in its process group if there is one, else as the launcher's variables say."""
    place = Place.here()
    return replace(place, rank=dist.get_rank(), size=dist.get_world_size()) if dist.is_initialized() else place


def say_device(transport: Transport, device: torch.device, network: str) -> None:
    """Say once for all workers on which devices a script runs; on the CPU nothing is said."""
    if device.type != "cpu" and transport.rank == 0:
        workers = f"{transport.size} worker{'' if transport.size == 1 else 's'}"
        print(f"halowire: {workers} on {device_words(device)}{network}", file=sys.stderr, flush=True)


def _on_own_group(wanted: str | torch.device, deadline: float) -> Transport:
    """The transport on the script's own process group, once all its workers have agreed on the kind of their devices.

    Workers of different kinds would make process groups of different kinds, and wait for each other.
    """
    place = place_here()
    store = PrefixStore(f"halowire/own-{next(_AGREED)}", dist.distributed_c10d._get_default_store())
    device, carrier = agree_on_means(store, place, partial(_means_here, wanted), deadline)
    transport = transport_on(device, deadline)
    if launched():
        transport.machines = find_machines(transport, place, 0)
    if transport.size > 1:
        say_device(transport, device, carrier_words(carrier, device))
    return transport


def _means_here(wanted: str | torch.device) -> Means:
    """The means of this worker in the script's own process group."""
    device = device_here(wanted)
    return Means(device, carriers_of(dist.group.WORLD).get(device.type, "gloo"))


@contextmanager
def _left_at_the_end(transport: Transport) -> Iterator[Transport]:
    """Leave the script's own process group after the block, also where the script has destroyed it already.

    A group that outlives the interpreter has threads that let go of tensors when it is too late, which aborts.
    """
    try:
        yield transport
        if dist.is_initialized():
            transport.settle()
    finally:
        transport.forget()
        if dist.is_initialized():
            leave_group()
