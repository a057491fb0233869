"""Choosing between native code, Triton and the twins."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
import torch

from halowire.errors import InputError
from halowire.kernels import dispatch


def test_where_there_is_a_compiler_the_kernels_are_native():
    """Without one the twins serve, ten times slower; sources that do not compile must not pass for that."""
    compiler = shutil.which("c++") or shutil.which("g++")
    assert dispatch.load_native() or not compiler, "`pip install -v --no-build-isolation -e .` shows why not"


def test_the_twins_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALOWIRE_KERNELS", "torch")
    assert dispatch.kernels_in_use() == "torch"
    monkeypatch.delenv("HALOWIRE_KERNELS")
    assert dispatch.kernels_in_use() == ("native" if dispatch.load_native() else "torch")


def test_tensors_elsewhere_get_the_twins() -> None:
    assert dispatch.native_for(torch.empty(2, device="meta")) is None


def test_unknown_choices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALOWIRE_KERNELS", "cuda")
    with pytest.raises(InputError, match="HALOWIRE_KERNELS is 'cuda'"):
        dispatch.kernels_in_use()


def test_the_level_is_one_that_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HALOWIRE_SIMD", raising=False)
    known = dispatch.known_levels()
    assert dispatch.simd_level() == (known[-1] if known else "none")
    if known:
        monkeypatch.setenv("HALOWIRE_SIMD", "mmx")
        with pytest.raises(InputError, match="HALOWIRE_SIMD is 'mmx'"):
            dispatch.simd_level()


def test_a_module_built_from_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "ABI", -1)
    assert dispatch.load_native.__wrapped__() is None


def test_little_work_stays_on_one_thread() -> None:
    assert dispatch.threads_for(10) == 1
    assert dispatch.threads_for(1 << 40) == torch.get_num_threads()


def test_triton_takes_tensors_of_the_cpu_only_where_it_interprets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALOWIRE_KERNELS", "triton")
    monkeypatch.setattr(dispatch, "interpreted", lambda: False)
    assert dispatch.triton_for(4, torch.empty(2, 4)) is None
    assert dispatch.native_for(torch.empty(2, 4)) is dispatch.load_native()


def test_triton_takes_what_a_new_gpu_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "serves", lambda device: True)
    monkeypatch.setattr(dispatch, "import_module", lambda name: name)
    here = torch.empty(2, 4, device="meta")
    for columns, tensors, taken in ((4, (here, None), True), (0, (here,), False), (4, (here, torch.empty(1)), False)):
        assert (dispatch.triton_for(columns, *tensors) == "halowire.kernels.triton") is taken
    assert dispatch.triton_for(dispatch.MOST_COLUMNS + 1, here) is None
    assert dispatch.kernels_in_use(here.device) == "triton"
    monkeypatch.setenv("HALOWIRE_KERNELS", "torch")
    assert dispatch.triton_for(4, here) is None
    assert dispatch.kernels_in_use(here.device) == "torch"


def test_triton_that_was_asked_for_and_cannot_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "serves", lambda device: False)
    monkeypatch.setattr(dispatch, "reason_against", lambda device: "triton is not installed")
    monkeypatch.setattr(dispatch, "interpreted", lambda: True)
    for choice, refused in (("native", False), ("torch", False), ("triton", True)):
        monkeypatch.setenv("HALOWIRE_KERNELS", choice)
        for device in (torch.device("cpu"), torch.device("meta")):
            here = torch.empty(2, 4, device=device)
            if refused:
                with pytest.raises(InputError, match="HALOWIRE_KERNELS is 'triton', but triton is not installed; corr"):
                    dispatch.triton_for(4, here)
            else:
                assert dispatch.triton_for(4, here) is None


def test_why_torch_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, meta = torch.device("cpu"), torch.device("meta")
    monkeypatch.delenv("HALOWIRE_KERNELS", raising=False)
    assert dispatch.why_twins(meta) == "there are none for the device 'meta'"
    monkeypatch.setattr(dispatch, "load_native", lambda: None)
    assert dispatch.why_twins(cpu) == "there is no native module: install halowire with a C++ compiler"
    monkeypatch.setattr(dispatch, "load_native", object)
    assert dispatch.why_twins(cpu) is None
    monkeypatch.setenv("HALOWIRE_KERNELS", "torch")
    assert dispatch.why_twins(cpu) == "HALOWIRE_KERNELS is 'torch'"


@pytest.mark.parametrize(("modules", "imported"), [("halowire, halowire.api, halowire.kernels", 0), ("triton", 1)])
def test_importing_halowire_does_not_import_triton(tmp_path, modules, imported):
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton/__init__.py").touch()  # so that there is one on every machine
    command = f"import sys, {modules}; sys.exit('triton' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", command], env=environment, check=False).returncode == imported
