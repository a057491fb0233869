"""The dispatcher: it decides whether Triton, native code or the torch twin runs a kernel, and checks the tensors.

A wrapper checks its tensors, because Triton and native code check nothing, and asks for their modules: Triton takes
tensors on a GPU, native code those on the CPU. Where neither can take the tensors, the wrapper calls the twin.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels.triton_devices import interpreted, reason_against, serves

ABI = 9
LEVELS = ("portable", "avx2", "avx512")
WORK_PER_THREAD = 1 << 15
INDEX_TYPES = (torch.int32, torch.int64)
NUMBERS = (int, bool, float)
CHOICES = ("native", "triton", "torch")
MOST_COLUMNS = 4096
"""The longest row that a Triton kernel holds in registers."""


@cache
def load_native() -> Any | None:
    """The module ``halowire.kernels._native``, or None where it was not built or was built from other sources.

    torch is imported before the module, so that both share torch's ``libgomp`` and its threads.
    """
    try:
        module: Any = import_module("halowire.kernels._native")
    except ImportError:
        return None
    return module if getattr(module, "ABI", None) == ABI else None


def choice_of_kernels() -> str:
    """What ``HALOWIRE_KERNELS`` asks for: ``native`` (also where it is not set), ``triton`` or ``torch``.

    ``torch`` asks for the twins on every device. ``triton`` insists on Triton where it could run: for tensors of a GPU
    and, under ``TRITON_INTERPRET=1``, for those of the CPU, whose kernels are then interpreted, for tests. With
    ``native`` tensors get the fastest kernels of their device.
    """
    choice = os.environ.get("HALOWIRE_KERNELS", "native")
    if choice not in CHOICES:
        given = ", ".join(map(repr, CHOICES))
        raise InputError(f"HALOWIRE_KERNELS is {choice!r}, but must be one of {given}: correct or unset it")
    return choice


def native_for(*tensors: Tensor | None) -> Any | None:
    """The native module if it exists, all tensors are on the CPU and ``HALOWIRE_KERNELS`` is not ``torch``."""
    if choice_of_kernels() == "torch" or any(t is not None and t.device.type != "cpu" for t in tensors):
        return None
    return load_native()


def triton_for(columns: int, *tensors: Tensor | None) -> Any | None:
    """The folder of Triton kernels if they can take rows of ``columns`` values and all ``tensors``, else None."""
    choice = choice_of_kernels()
    devices = {t.device for t in tensors if t is not None}
    if len(devices) != 1 or choice == "torch" or not 0 < columns <= MOST_COLUMNS:
        return None
    device = devices.pop()
    if device.type == "cpu" and not (choice == "triton" and interpreted()):
        return None
    if serves(device):
        return import_module("halowire.kernels.triton")
    if choice == "triton":
        raise InputError(f"HALOWIRE_KERNELS is 'triton', but {reason_against(device)}; correct or unset it")
    return None


def kernels_in_use(device: torch.device | None = None) -> str:
    """Which kernels the tensors of ``device`` get, by default the CPU: ``"native"``, ``"triton"`` or ``"torch"``."""
    where = torch.device("cpu") if device is None else device
    if triton_for(1, torch.empty(0, device=where)) is not None:
        return "triton"
    return "native" if where.type == "cpu" and native_for() is not None else "torch"


def why_twins(device: torch.device) -> str | None:
    """Why the tensors of ``device`` get torch's operations instead of kernels of its own; None where they do not."""
    if choice_of_kernels() == "torch":
        return "HALOWIRE_KERNELS is 'torch'"
    if device.type != "cpu":
        return reason_against(device)
    return None if load_native() is not None else "there is no native module: install halowire with a C++ compiler"


@cache
def known_levels() -> tuple[str, ...]:
    """The SIMD levels this machine can run, ascending."""
    native = load_native()
    return () if native is None else tuple(native.levels())


def simd_level() -> str:
    """The SIMD level in use: this machine's highest, or what ``HALOWIRE_SIMD`` asks for; "none" without native code."""
    known = known_levels()
    choice = os.environ.get("HALOWIRE_SIMD")
    if not known:
        return "none"
    if choice is None:
        return known[-1]
    if choice not in known:
        raise InputError(f"HALOWIRE_SIMD is {choice!r}, but this machine runs {', '.join(known)}: correct or unset it")
    return choice


def threads_for(work: int) -> int:
    """Number of threads for ``work`` element operations: torch's setting, or fewer for little work."""
    return max(1, min(torch.get_num_threads(), work // WORK_PER_THREAD))


def call(kernel: Callable[..., Any], *arguments: Any) -> Any:
    """Call native code with the addresses of the tensors among ``arguments`` in their places, and 0 for None."""
    return kernel(*[a if type(a) in NUMBERS else 0 if a is None else a.data_ptr() for a in arguments])


def run(kernel: Callable[..., Any], *arguments: Any) -> Any:
    """Like :func:`call`, for kernels that first take the number of the SIMD level in use."""
    return call(kernel, LEVELS.index(simd_level()), *arguments)


def strided(matrix: Tensor | None) -> tuple[Tensor | None, int]:
    """``matrix``, copied unless its columns are adjacent, and the elements between the starts of two of its rows."""
    if matrix is None:
        return None, 0
    if matrix.stride(1) != 1 and not adjacent(matrix):
        matrix = matrix.contiguous()
    return matrix, matrix.stride(0)


def indexed(indptr: Tensor, indices: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Two index arrays, and whether the second one, ``indices``, is int64."""
    return indptr, indices, indices.dtype == torch.int64


def matrix_of(indptr: Tensor, indices: Tensor, num_cols: int) -> tuple[Tensor, Tensor, bool, int, int]:
    """A CSR matrix as native code takes it; its numbers of entries and columns are what checked builds keep to."""
    return *indexed(indptr, indices), indices.numel(), num_cols


def check_rows(name: str, tensor: Tensor, rows: int | None = None, cols: int | None = None) -> None:
    """Raise unless ``tensor`` is float32 ``[rows, cols]``; None stands for any number."""
    good = tensor.dim() == 2 and tensor.dtype == torch.float32
    good = good and rows in (None, tensor.shape[0]) and cols in (None, tensor.shape[1])
    if not good:
        wanted = f"[{'rows' if rows is None else rows}, {'columns' if cols is None else cols}]"
        raise InputError(f"{name} is {tensor.dtype} {list(tensor.shape)}, but must be torch.float32 {wanted}")


def check_vector(name: str, tensor: Tensor, dtypes: tuple[torch.dtype, ...], size: int | None = None) -> None:
    """Raise unless ``tensor`` is one-dimensional, contiguous, of one of ``dtypes`` and of length ``size``."""
    good = tensor.dim() == 1 and tensor.dtype in dtypes and size in (None, tensor.numel())
    if not good or not tensor.is_contiguous():
        wanted = " or ".join(str(dtype) for dtype in dtypes)
        length = "" if size is None else f" of length {size}"
        raise InputError(f"{name} is {tensor.dtype} {list(tensor.shape)}, but must be a contiguous {wanted}{length}")


def check_bytes(name: str, tensor: Tensor) -> None:
    """Raise unless ``tensor`` is contiguous uint8."""
    if tensor.dtype != torch.uint8 or not tensor.is_contiguous():
        raise InputError(f"{name} is {tensor.dtype} {list(tensor.shape)}, but must be contiguous torch.uint8")


def check_matrix(indptr: Tensor, indices: Tensor, weight: Tensor | None) -> int:
    """Raise unless the arrays are those of a CSR matrix; returns its number of rows.

    It is not checked that ``indices`` name existing columns, because that would read all of them.
    """
    check_vector("indptr", indptr, (torch.int64,))
    check_vector("indices", indices, INDEX_TYPES)
    if weight is not None:
        check_vector("weight", weight, (torch.float32,), indices.numel())
    rows = indptr.numel() - 1
    if rows < 0 or int(indptr[-1]) > indices.numel():
        raise InputError(f"indptr does not fit {indices.numel()} indices: it must start at 0 and end at their number")
    return rows


def adjacent(*tensors: Tensor | None) -> bool:
    """Whether the columns of all the matrices are adjacent in memory, as native code needs them."""
    return all(tensor is None or tensor.stride(1) == 1 or tensor.shape[1] <= 1 for tensor in tensors)
