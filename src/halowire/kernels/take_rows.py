"""Gathers rows into one contiguous buffer, for a message to a peer."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels.buffers import empty
from halowire.kernels.dispatch import INDEX_TYPES, adjacent, call, check_vector, native_for, strided, threads_for


def take_rows(x: Tensor, index: Tensor, out: Tensor | None = None) -> Tensor:
    """``out[i] = x[index[i]]``, contiguous ``[len(index), k]``.

    Args:
        x: ``[m, k]`` of any type.
        index: int64 or int32 ``[n]``, each in ``0 .. m - 1``.
        out: ``[n, k]`` of the type of ``x``, adjacent columns; new if not given.
    """
    check_vector("index", index, INDEX_TYPES)
    if x.dim() != 2:
        raise InputError(f"x has {x.dim()} dimensions, but rows are taken from a matrix: pass [rows, columns]")
    shape = (index.numel(), x.shape[1])
    if out is None:
        out = empty(*shape, False, x.device) if x.dtype == torch.float32 else x.new_empty(shape)
    if out.shape != shape or out.dtype != x.dtype:
        raise InputError(f"out is {out.dtype} {list(out.shape)}, but must be {x.dtype} {list(shape)}")
    native = native_for(x, index, out)
    if native is None or not adjacent(out):
        return take_rows_twin(x, index, out)
    (source, stride), size = strided(x), x.element_size()
    inside = call(
        native.take_rows, source, stride * size, x.shape[0], index, index.dtype == torch.int64, shape[0],
        shape[1] * size, out, out.stride(0) * size, threads_for(shape[0] * shape[1]),
    )  # fmt: skip
    if not inside:
        raise outside(index, x.shape[0])
    return out


def take_rows_twin(x: Tensor, index: Tensor, out: Tensor) -> Tensor:
    """:func:`take_rows` in torch; on a device torch itself stops at rows that do not exist."""
    if index.device.type == "cpu" and index.numel() and (int(index.min()) < 0 or int(index.max()) >= x.shape[0]):
        raise outside(index, x.shape[0])
    return out.copy_(x.index_select(0, index))


def outside(index: Tensor, rows: int) -> InputError:
    """The error for row numbers that do not exist."""
    return InputError(f"rows {int(index.min())} to {int(index.max())} are asked for, but there are only {rows} rows")
