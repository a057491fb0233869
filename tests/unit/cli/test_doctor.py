"""`halowire doctor` tells the truth about GPUs and their kernels."""

from __future__ import annotations

import warnings

import pytest
import torch

from halowire.cli.doctor import gpu_facts, kernel_facts
from halowire.kernels import triton_devices
from halowire.kernels.triton_devices import reason_against, serves


@pytest.fixture
def gpus(monkeypatch):
    """Three GPUs, of which the last is too old, on a machine with triton."""
    reason_against.cache_clear()
    serves.cache_clear()
    old = torch.device("cuda", 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Old" if device == old else "New")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5) if device == old else (9, 0))
    monkeypatch.setattr(torch.version, "cuda", "12.9")
    monkeypatch.setattr(triton_devices, "find_spec", lambda name: name)
    monkeypatch.setattr(triton_devices, "triton_version", lambda: "3.7.1")
    monkeypatch.setattr("halowire.cli.doctor.kernels_in_use", lambda device: "triton" if serves(device) else "torch")
    yield
    reason_against.cache_clear()
    serves.cache_clear()


@pytest.mark.usefixtures("gpus")
def test_every_kind_of_gpu_is_named_with_its_kernels():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what the line says is not said a second time
        facts = gpu_facts()
    assert facts[:2] == [
        "GPUs            2 x New, kernels: triton",
        "GPUs            1 x Old, kernels: torch (the GPU has compute capability 7.5; the kernels need 8.0 or above)",
    ]
    assert facts[2].startswith("built for       CUDA 12.9, triton ")


@pytest.mark.usefixtures("gpus")
def test_missing_triton_is_said(monkeypatch):
    monkeypatch.setattr(triton_devices, "find_spec", lambda name: None)
    reason = "torch (triton is not installed; a CUDA or ROCm build of torch brings it)"
    assert gpu_facts()[:2] == [
        f"GPUs            {n} x {name}, kernels: {reason}" for n, name in ((2, "New"), (1, "Old"))
    ]


def test_without_a_gpu():
    assert gpu_facts() == ["GPUs            none"]


def test_twins_that_were_asked_for_are_said(monkeypatch):
    monkeypatch.setenv("HALOWIRE_KERNELS", "torch")
    assert kernel_facts(torch.device("cpu")) == "torch (HALOWIRE_KERNELS is 'torch')"
