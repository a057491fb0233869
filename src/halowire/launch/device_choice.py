"""The device of a worker: one GPU for each worker of a machine, or the CPU; all workers have the same kind."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

import torch
from torch._C._distributed_c10d import Store

from halowire.errors import InputError
from halowire.launch.place import Place
from halowire.launch.token import LINGER, from_all, silent


def choose_device(setting: str, place: Place) -> torch.device:
    """The device of the setting ``cpu``, ``cuda`` or ``auto``: CUDA where every worker of this machine has a GPU.

    The worker with local rank ``r`` gets GPU ``r``.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if setting == "cuda" and count < place.local_size:
        fewer = f"start at most {count} workers on this machine, or " if count else ""
        raise InputError(
            f"--device cuda needs a GPU for every worker here ({place.local_size}), but torch sees {count}; {fewer}use "
            "--device cpu"
        )
    enough = count >= place.local_size
    return torch.device("cuda", place.local_rank) if enough and setting != "cpu" else torch.device("cpu")


def device_words(device: torch.device) -> str:
    """What the console says of ``device``; of a GPU its number on this machine, and its name."""
    if device.type == "cpu":
        return "cpu"
    name = torch.get_device_module(device).get_device_name(device)
    return f"{device.type}, a GPU each (this one: {device}, {name})"


def agree_on_devices(
    store: Store, place: Place, kind: str, deadline: float, miss: Callable[[list[int]], None] = silent
) -> None:
    """Refuse to go on, on all workers, unless their devices are of one kind, as they say through ``store``.

    Workers of different kinds would wait for each other in process groups of different kinds.
    """
    store.set(f"device/{place.rank}", kind)
    said = from_all(store, "device", place.size, time.monotonic() + deadline, miss)
    store.set(f"device-heard/{place.rank}", "")
    kinds = [kind.decode(errors="replace") for kind in said]
    if len(set(kinds)) > 1:
        with contextlib.suppress(RuntimeError):  # rank 0 may hold the store: it stays until all have heard
            from_all(store, "device-heard", place.size, time.monotonic() + LINGER)
        raise InputError(
            f"the workers' devices differ: {kinds_by_rank(kinds)}; give every machine a GPU for each of its workers "
            "and the same --transport, or start all with --device cpu"
        )


def kinds_by_rank(kinds: Sequence[str]) -> str:
    """Which ranks have which of the ``kinds``, as in ``cuda on ranks 0, 1; cpu on rank 2``."""
    found = {kind: [str(rank) for rank, other in enumerate(kinds) if other == kind] for kind in dict.fromkeys(kinds)}
    return "; ".join(f"{kind} on rank{'s' if len(who) > 1 else ''} {', '.join(who)}" for kind, who in found.items())
