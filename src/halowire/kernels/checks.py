"""Checks that the wrappers share: what native code would read or write blindly must have the right type and shape."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.errors import InputError


def check_rows(name: str, tensor: Tensor, rows: int | None = None, cols: int | None = None) -> None:
    """Raise unless ``tensor`` is float32 ``[rows, cols]`` with adjacent columns (rows may be any distance apart)."""
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


def unit_columns(tensor: Tensor) -> Tensor:
    """The tensor itself if its columns are adjacent in memory, else a contiguous copy."""
    return tensor if tensor.stride(1) == 1 or tensor.shape[1] <= 1 else tensor.contiguous()
