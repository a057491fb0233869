"""Reused float32 buffers: a fresh buffer costs page faults every epoch, a pooled one in huge pages costs nothing.

Idle buffers take at most an eighth of the machine's memory, or as much as was ever in use at once where that is more.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from halowire.errors import InputError
from halowire.kernels.dispatch import check_rows, native_for

LINE = 16


def row_stride(cols: int) -> int:
    """Floats from one row to the next: whole cache lines once a row is longer than one (47 columns take 48)."""
    return cols if cols <= LINE else -(-cols // LINE) * LINE


def empty(rows: int, cols: int, padded: bool = True, device: torch.device | None = None) -> Tensor:
    """Uninitialised float32 ``[rows, cols]`` from the pool; the memory returns to it when the last view dies.

    Rows start on cache lines where ``cols`` exceeds 16; the tensor is therefore contiguous only if ``cols`` is at most
    16 or a multiple of it, or with ``padded=False``. The pool is the CPU's; on another ``device`` torch has its own.
    """
    if device is not None and device.type != "cpu":
        return torch.empty(rows, cols, dtype=torch.float32, device=device)
    native = native_for()
    if native is None or rows * cols == 0:
        return torch.empty(rows, cols)
    tensor: Tensor = from_dlpack(native.buffer(rows, cols, row_stride(cols) if padded else cols))
    return tensor


def rows_for(rows: int, cols: int, device: torch.device, out: Tensor | None, accumulate: bool = False) -> Tensor:
    """The matrix float32 ``[rows, cols]`` that a kernel writes: ``out``, checked, or a new one, on the CPU of the pool.

    A kernel with ``accumulate`` adds to ``out``, which must then be given.
    """
    if out is None:
        if accumulate:
            raise InputError("accumulate=True adds to out, but no out was given: pass out, or accumulate=False")
        return empty(rows, cols, device=device)
    check_rows("out", out, rows, cols)
    return out


def buffer_bytes() -> int:
    """Bytes that the pool holds ready for reuse; buffers that tensors use do not count."""
    native = native_for()
    return 0 if native is None else int(native.buffer_bytes())


def set_buffer_floor(nbytes: int) -> int:
    """Let idle buffers take ``nbytes`` even where less was ever in use at once.

    Returns the value before; 0 without a pool.
    """
    native = native_for()
    return 0 if native is None else int(native.buffer_floor(nbytes))


def release_buffers() -> None:
    """Give the pool's idle memory back to the operating system."""
    native = native_for()
    if native is not None:
        native.release_buffers()
