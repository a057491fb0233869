"""How many workers prove the GPUs of a machine, and what is said where there are none."""

from __future__ import annotations

import pytest
import torch

from halowire.errors import InputError
from halowire.proving import proving_workers


@pytest.mark.parametrize(("gpus", "workers"), [(1, 1), (2, 2), (3, 2), (4, 4), (8, 4)])
def test_every_worker_has_a_gpu_of_its_own(monkeypatch, gpus, workers):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert proving_workers() == workers


def test_without_a_gpu_there_is_nothing_to_prove(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match=r"--gpu needs a GPU, but torch .* sees none; .* or leave --gpu out"):
        proving_workers()
