"""The device of a worker: one GPU for each worker of a machine, or the CPU; all workers have the same kind."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch._C._distributed_c10d import Store

from halowire.errors import InputError
from halowire.launch.carrier import choose_carrier, device_and_carrier
from halowire.launch.place import Place
from halowire.launch.token import LINGER, from_all, silent

SETTINGS = ("auto", "cpu", "cuda")
NOTHING = "nothing it may use"
"""What a worker has that must refuse the settings."""


class Means(NamedTuple):
    """What a worker computes on, and what carries its rows to the others: ``nccl`` or ``gloo``."""

    device: torch.device
    carrier: str


def choose_device(setting: str, place: Place) -> torch.device:
    """The device of the setting ``cpu``, ``cuda`` or ``auto``: CUDA where every worker of this machine has a GPU.

    The worker with local rank ``r`` gets GPU ``r``. Where no local ranks are known, it is torch's current GPU.
    """
    if setting not in SETTINGS:
        raise InputError(
            f"device is {setting!r}, expected cpu, cuda or auto; with cuda every worker takes the GPU of its own local "
            "rank, and CUDA_VISIBLE_DEVICES says which GPUs there are"
        )
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    # Not every launcher that gives local ranks says how many there are.
    needed = max(place.local_size, place.local_rank + 1)
    if setting == "cuda" and count < needed:
        fewer = f"start at most {count} workers on this machine, or " if count else ""
        raise InputError(
            f"--device cuda needs a GPU for every worker here ({needed}), but torch sees {count}; {fewer}use "
            "--device cpu"
        )
    if setting == "cpu" or count < needed:
        return torch.device("cpu")
    return torch.device("cuda", _number_of_gpu(place, count))


def _number_of_gpu(place: Place, count: int) -> int:
    """Which of the ``count`` GPUs that torch sees is the one of this worker."""
    if place.size == 1 or place.local_size > 1 or "LOCAL_RANK" in os.environ:
        return place.local_rank
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # by a script that has set it
        return torch.cuda.current_device()
    if count > 1:
        raise InputError(
            f"torch sees {count} GPUs, and nothing says which of them is rank {place.rank}'s; set LOCAL_RANK, as "
            "torchrun does, or call torch.cuda.set_device first, or use --device cpu"
        )
    return 0


def device_words(device: torch.device) -> str:
    """What the console says of ``device``; of a GPU its number on this machine, and its name."""
    if device.type == "cpu":
        return "cpu"
    name = torch.get_device_module(device).get_device_name(device)
    return f"{device.type}, a GPU each (this one: {device}, {name})"


def means_of(wanted: str | torch.device, transport: str, place: Place) -> Means:
    """The means of this worker: its device, as the setting ``wanted`` says or given as it is, and the carrier."""
    device = wanted if isinstance(wanted, torch.device) else choose_device(wanted, place)
    return Means(device, choose_carrier(transport, device))


def refuse_missing_means(device: str, transport: str, workers: int) -> None:
    """Refuse what this machine cannot give to so many ``workers`` of its own, before anything is read or written."""
    means_of(device, transport, replace(Place.here(), local_size=workers))


def agree_on_means(
    store: Store,
    place: Place,
    choose: Callable[[], Means],
    deadline: float,
    miss: Callable[[list[int]], None] = silent,
) -> Means:
    """What ``choose`` gives this worker; refuses to go on, on all workers, unless all can, with devices of one kind.

    The workers tell each other through ``store``. One that refused alone would leave the others waiting for it, and
    workers of different kinds would wait for each other in process groups of different kinds.
    """
    means, refusal = None, ""
    try:
        means = choose()
    except InputError as error:
        refusal = str(error)
    kind = NOTHING if means is None else device_and_carrier(*means)
    store.set(f"device/{place.rank}", json.dumps([kind, refusal]))
    said = from_all(store, "device", place.size, time.monotonic() + deadline, miss)
    store.set(f"device-heard/{place.rank}", "")
    kinds, refusals = zip(*map(json.loads, said), strict=True)
    if means is not None and len(set(kinds)) == 1:
        return means
    if place.rank == 0:  # it may hold the store, so it stays until all have heard; if others asked on, torch would warn
        with contextlib.suppress(RuntimeError):
            from_all(store, "device-heard", place.size, time.monotonic() + LINGER)
    raise _disagreement(kinds, refusals)


def _disagreement(kinds: Sequence[str], refusals: Sequence[str]) -> InputError:
    """Why the workers cannot go on: the first refusal, with who has what; or that their devices differ."""
    first = next((rank for rank, refusal in enumerate(refusals) if refusal), None)
    if first is None:
        return InputError(
            f"the workers' devices differ: {kinds_by_rank(kinds)}; give every machine a GPU for each of its workers "
            "and the same --transport, or start all with --device cpu"
        )
    if all(refusals):
        return InputError(refusals[first])
    return InputError(f"rank {first} cannot start ({kinds_by_rank(kinds)}): {refusals[first]}")


def refuse_other_kinds(kinds: Sequence[str]) -> None:
    """Refuse to go on where the workers' devices, of these ``kinds``, differ."""
    if len(set(kinds)) > 1:
        raise _disagreement(kinds, [""] * len(kinds))


def kinds_by_rank(kinds: Sequence[str]) -> str:
    """Which ranks have which of the ``kinds``, as in ``cuda on ranks 0, 1; cpu on rank 2``."""
    found = {kind: [str(rank) for rank, other in enumerate(kinds) if other == kind] for kind in dict.fromkeys(kinds)}
    return "; ".join(f"{kind} on rank{'s' if len(who) > 1 else ''} {', '.join(who)}" for kind, who in found.items())
