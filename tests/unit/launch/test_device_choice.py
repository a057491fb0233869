"""Which device a worker gets, and what happens where the workers have different ones."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.distributed as dist

from halowire.errors import InputError
from halowire.launch import Place, choose_device, device_words
from halowire.launch.device_choice import agree_on_devices


def gpus(monkeypatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU number {device.index}")


def place_of(local_rank: int, local_size: int) -> Place:
    return Place(local_rank, local_size, local_rank, local_size, 0)


def test_cuda_is_refused_where_there_is_none(monkeypatch):
    gpus(monkeypatch, 0)
    with pytest.raises(InputError, match=r"here \(1\), but torch sees 0; use --device cpu"):
        choose_device("cuda", place_of(0, 1))
    assert choose_device("auto", place_of(0, 1)) == torch.device("cpu")
    assert device_words(torch.device("cpu")) == "cpu"


def test_every_worker_of_a_machine_gets_a_gpu_of_its_own(monkeypatch):
    gpus(monkeypatch, 2)
    devices = [choose_device(setting, place_of(rank, 2)) for rank, setting in enumerate(["cuda", "auto"])]
    assert devices == [torch.device("cuda", 0), torch.device("cuda", 1)]
    assert choose_device("cpu", place_of(0, 2)) == torch.device("cpu")
    assert device_words(devices[1]) == "cuda, a GPU each (this one: cuda:1, GPU number 1)"


def test_too_few_gpus_are_refused_with_the_alternative(monkeypatch):
    gpus(monkeypatch, 2)
    with pytest.raises(InputError, match=r"start at most 2 workers on this machine, or use --device cpu"):
        choose_device("cuda", place_of(0, 3))
    assert choose_device("auto", place_of(0, 3)) == torch.device("cpu")


def meet(kinds: list[str]) -> list[str]:
    """What every worker, with the device of these ``kinds``, hears when they meet: an error, or nothing."""
    store, heard = dist.HashStore(), [""] * len(kinds)

    def join(rank: int) -> None:
        try:
            agree_on_devices(store, place_of(rank, len(kinds)), kinds[rank], 30.0)
        except InputError as error:
            heard[rank] = str(error)

    threads = [threading.Thread(target=join, args=(rank,)) for rank in range(len(kinds))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return heard


def test_workers_with_different_devices_are_refused_with_who_has_what():
    assert meet(["cuda", "cuda", "cuda"]) == ["", "", ""]
    heard = meet(["cuda", "cpu", "cuda"])
    assert len(set(heard)) == 1
    assert heard[0].startswith("the workers' devices differ: cuda on ranks 0, 2; cpu on rank 1; give every machine")
