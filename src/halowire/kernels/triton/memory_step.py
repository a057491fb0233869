"""The step of delta coding's memory on a GPU, in one pass, with the rounding that both ends of a message share."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from halowire.kernels.triton.launches import blocks, launch, row_tile
from halowire.kernels.triton.tiles import row_block


def delta_step(kept: Tensor, values: Tensor, decay: float, gain: float, columns: Tensor | None) -> None:
    """``kept[:, columns] <- decay kept[:, columns] + gain values``; None: all columns. Both have adjacent columns."""
    rows, cols = values.shape
    tile = row_tile(cols)
    launch(
        memory_step_kernel, (blocks(rows, tile["M"]),), kept, kept.stride(0), values, values.stride(0), columns, decay,
        gain, rows, K=cols, enable_fp_fusion=False, **tile,
    )  # fmt: skip


@triton.jit(do_not_specialize=["rows"])
def memory_step_kernel(
    kept, kept_stride, values, values_stride, columns, decay, gain, rows,
    K: tl.constexpr, M: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """``M`` rows of ``K`` columns, in a tile ``[M, KP]``."""
    row, _, cols, inside = row_block(rows, K, M, KP)
    number = cols if columns is None else tl.load(columns + cols, cols < K, 0)
    place = kept + row[:, None] * kept_stride + number[None, :]
    change = tl.load(values + row[:, None] * values_stride + cols[None, :], inside, 0.0)
    tl.store(place, tl.load(place, inside, 0.0) * decay + change * gain, inside)
