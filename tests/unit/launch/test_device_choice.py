"""Which device a worker gets, and what happens where the workers have different ones."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from halowire.errors import InputError
from halowire.launch import Place, choose_device, device_words
from halowire.launch.device_choice import Means, agree_on_means, means_of


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


@pytest.mark.parametrize("setting", ["cuda:0", "mps", "CUDA", ""])
def test_other_devices_are_refused_with_the_way_out(monkeypatch, setting):
    gpus(monkeypatch, 2)
    with pytest.raises(InputError, match="expected cpu, cuda or auto; with cuda every worker takes the GPU of its own"):
        choose_device(setting, place_of(0, 1))


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


def test_a_local_rank_says_how_many_gpus_are_needed_where_nothing_else_does(monkeypatch):
    gpus(monkeypatch, 2)
    monkeypatch.setenv("LOCAL_RANK", "3")
    alone = Place(3, 4, 3, 1, 0)  # LOCAL_WORLD_SIZE is not set
    with pytest.raises(InputError, match=r"needs a GPU for every worker here \(4\), but torch sees 2"):
        choose_device("cuda", alone)
    assert choose_device("auto", alone) == torch.device("cpu")


def test_without_local_ranks_a_worker_takes_the_current_gpu_or_is_told_to_choose(monkeypatch):
    gpus(monkeypatch, 2)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    place = Place(1, 4, 0, 1, 0)
    for setting in ("auto", "cuda"):
        with pytest.raises(InputError, match="which of them is rank 1's; set LOCAL_RANK, as torchrun does, or call"):
            choose_device(setting, place)
    assert choose_device("cpu", place) == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert choose_device("auto", place) == torch.device("cuda", 1)
    gpus(monkeypatch, 1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert choose_device("auto", place) == torch.device("cuda", 0), "a launcher may show every worker its own GPU"


def meet(choices: list[Callable[[], Means]]) -> list[str]:
    """What every worker, which makes one of these ``choices``, hears when they meet: an error, or nothing."""
    store, heard = dist.HashStore(), [""] * len(choices)

    def join(rank: int) -> None:
        try:
            agree_on_means(store, place_of(rank, len(choices)), choices[rank], 30.0)
        except InputError as error:
            heard[rank] = str(error)

    threads = [threading.Thread(target=join, args=(rank,)) for rank in range(len(choices))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return heard


def with_gpu() -> Means:
    return Means(torch.device("cuda", 0), "nccl")


def with_gpu_and_gloo() -> Means:
    return Means(torch.device("cuda", 0), "gloo")


def on_the_cpu() -> Means:
    return Means(torch.device("cpu"), "gloo")


def test_workers_with_different_devices_are_refused_with_who_has_what():
    assert meet([with_gpu, with_gpu, with_gpu]) == ["", "", ""]
    heard = meet([with_gpu, on_the_cpu, with_gpu_and_gloo])
    assert len(set(heard)) == 1
    assert heard[0].startswith(
        "the workers' devices differ: cuda with nccl on rank 0; cpu on rank 1; cuda with gloo on rank 2; give every"
    )


def test_what_one_worker_must_refuse_all_refuse(monkeypatch):
    gpus(monkeypatch, 0)
    heard = meet([on_the_cpu, lambda: means_of("cuda", "auto", place_of(0, 1))])
    assert len(set(heard)) == 1
    assert heard[0].startswith("rank 1 cannot start (cpu on rank 0; nothing it may use on rank 1): --device cuda needs")
    heard = meet([lambda: means_of("cuda", "auto", place_of(0, 1))] * 2)
    assert len(set(heard)) == 1
    assert heard[0].startswith("--device cuda needs a GPU for every worker here (1), but torch sees 0")


def test_one_machine_without_nccl_stops_all_workers(monkeypatch):
    monkeypatch.setattr(dist, "is_nccl_available", lambda: False)
    heard = meet([with_gpu, lambda: means_of(torch.device("cuda", 0), "nccl", place_of(0, 1))])
    assert len(set(heard)) == 1
    assert heard[0].endswith("--transport nccl needs a torch with NCCL, which this one is not; use --transport gloo")
