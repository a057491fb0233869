"""The devices of a script that has a process group of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from halowire.errors import InputError
from halowire.launch import device_here, script
from halowire.pyg import part_device
from halowire.wire import Transport

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def _other_kinds(rank: int) -> tuple[str, str]:
    """What this worker hears as it joins with a device of another kind, and as it cuts a graph for one."""
    mine = GPU if rank else CPU
    with pytest.raises(InputError) as joining:
        script._on_own_group(mine, 30.0)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(InputError) as cutting:
        patch.setattr(part_device, "device_here", lambda wanted: mine)
        part_device.part_device("auto", Transport(deadline=30.0))
    return str(joining.value), str(cutting.value)


def test_workers_with_other_kinds_of_devices_are_refused_before_the_first_message(
    on_workers: Callable[..., list[Any]],
) -> None:
    heard = on_workers(2, _other_kinds)
    assert heard[0] == heard[1]
    joining, cutting = heard[0]
    assert joining.startswith(
        "the workers' devices differ: cpu on rank 0; cuda with gloo on rank 1; give every machine"
    )
    assert cutting.startswith("the workers' devices differ: cpu on rank 0; cuda on rank 1; give every machine")


def test_a_group_that_is_bound_to_a_gpu_says_which_one(monkeypatch):
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(script, "gpu_of", lambda world: torch.device("cuda", 2))
    assert device_here("auto") == device_here("cuda") == torch.device("cuda", 2)
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    monkeypatch.setattr(dist, "get_world_size", lambda: 1)
    assert device_here("cpu") == CPU
    assert device_here(GPU) == GPU
