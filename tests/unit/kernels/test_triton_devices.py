"""Which GPUs the Triton kernels run on, and what the others are told."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest
import torch

from halowire.kernels import triton_devices
from halowire.kernels.triton_devices import reason_against, serves

GPU = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    reason_against.cache_clear()
    serves.cache_clear()


def a_gpu(patch: pytest.MonkeyPatch, capability: tuple[int, int] = (8, 0), amd: str | None = None) -> None:
    """Let torch report a GPU, and triton."""
    patch.setattr(triton_devices, "find_spec", lambda name: name)
    patch.setattr(triton_devices, "triton_version", lambda: "3.7.1")
    patch.setattr(torch.version, "hip", amd)
    patch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    patch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(gcnArchName=amd))


@pytest.mark.parametrize(("capability", "runs"), [((7, 5), False), ((8, 0), True), ((9, 0), True), ((12, 0), True)])
def test_gpus_of_nvidia_are_told_apart_by_their_capability(monkeypatch, capability, runs):
    a_gpu(monkeypatch, capability)
    assert (reason_against(GPU) is None) is runs


@pytest.mark.parametrize(("name", "runs"), [("gfx906", False), ("gfx90a:sramecc+", True), ("gfx942", True)])
def test_gpus_of_amd_are_told_apart_by_their_name(monkeypatch, name, runs):
    a_gpu(monkeypatch, amd=name)
    assert (reason_against(GPU) is None) is runs


def test_an_old_gpu_is_told_once(monkeypatch):
    a_gpu(monkeypatch, (7, 0))
    with pytest.warns(UserWarning, match="compute capability 7.0; the kernels need 8.0 or above"):
        assert not serves(GPU)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not serves(GPU)


def test_only_the_first_worker_of_a_machine_tells_it(monkeypatch):
    a_gpu(monkeypatch, (7, 0))
    monkeypatch.setenv("LOCAL_RANK", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not serves(GPU)


def test_without_triton_the_reason_says_so(monkeypatch):
    a_gpu(monkeypatch)
    monkeypatch.setattr(triton_devices, "find_spec", lambda name: None)
    assert "triton is not installed" in str(reason_against(GPU))


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("3.7.0", None), ("3.10.1+git5", None), ("4.0.0", None),
        ("3.6.0", "triton is 3.6.0; the kernels are checked with 3.7 and later"),
        ("", "triton is of no known version; the kernels"),
    ],
)  # fmt: skip
def test_an_old_triton_is_left_out(monkeypatch, version, reason):
    a_gpu(monkeypatch)
    monkeypatch.setattr(triton_devices, "triton_version", lambda: version)
    found = reason_against(GPU)
    assert found is None if reason is None else str(found).startswith(reason)


def test_a_triton_that_cannot_be_imported_is_left_out(monkeypatch):
    def broken() -> str:
        raise ImportError("libcuda.so")

    a_gpu(monkeypatch)
    monkeypatch.setattr(triton_devices, "triton_version", broken)
    assert reason_against(GPU) == "triton cannot be imported (ImportError); install torch anew"


def test_other_devices_have_no_triton_kernels():
    assert "'meta'" in str(reason_against(torch.device("meta")))
