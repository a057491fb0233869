"""How many workers prove the GPUs of a machine, and what is said where there are none."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from halowire.cli import doctor
from halowire.errors import InputError
from halowire.launch import Place
from halowire.proving import Subject, proof, prove_worker, proving_workers, this_gpu
from halowire.proving.subject import profiled


def gpus(monkeypatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


@pytest.mark.parametrize(("count", "workers"), [(1, 2), (2, 2), (3, 2), (4, 4), (8, 4)])
def test_rows_travel_on_every_number_of_gpus(monkeypatch, count, workers):
    gpus(monkeypatch, count)
    assert proving_workers() == workers
    subjects = [this_gpu(Place(rank, workers, rank, workers, 0)) for rank in range(workers)]
    assert [subject.device.index for subject in subjects] == ([0, 0] if count == 1 else list(range(workers)))
    assert all(subject.shared == (count == 1) for subject in subjects)


def test_one_gpu_gets_two_workers_who_send_through_the_host(monkeypatch):
    gpus(monkeypatch, 1)
    started: list[Any] = []
    monkeypatch.setattr(doctor, "_facts", list)
    monkeypatch.setattr(doctor, "run_workers", lambda *given: started.append(given))
    assert doctor.run(["--gpu"]) == 0
    assert started == [(2, ["prove"])]


@pytest.mark.parametrize(("shared", "setting"), [(True, "gloo"), (False, "auto")])
def test_workers_that_share_a_gpu_do_not_ask_for_nccl(monkeypatch, shared, setting):
    asked: list[Any] = []

    def joined(*given: Any) -> None:
        asked.append(given)
        raise InterruptedError

    monkeypatch.setattr(proof, "joined", joined)
    subject = Subject(torch.device("cuda", 0), profiled, shared=shared)
    with pytest.raises(InterruptedError):
        prove_worker(subject)
    assert asked == [(subject.device, proof.DEADLINE, setting)]


def test_without_a_gpu_there_is_nothing_to_prove(monkeypatch):
    gpus(monkeypatch, 0)
    with pytest.raises(InputError, match=r"--gpu needs a GPU, but torch .* sees none; .* or leave --gpu out"):
        proving_workers()
