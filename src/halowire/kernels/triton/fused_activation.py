"""LayerNorm, ReLU and dropout on a GPU, in one pass over the rows."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from halowire.kernels.counter_random import Drop, signed
from halowire.kernels.triton.draws import drop_factor
from halowire.kernels.triton.launches import blocks, launch, row_tile
from halowire.kernels.triton.tiles import row_block


def activate(
    x: Tensor,
    stride: int,
    gamma: Tensor | None,
    beta: Tensor | None,
    relu: bool,
    drop: Drop | None,
    eps: float,
    out: Tensor,
) -> Tensor | None:
    """``out = dropout(relu((x - mean) rstd gamma + beta))``; returns mean and ``rstd`` of the rows, ``[n, 2]``."""
    rows, cols = x.shape
    tile = row_tile(cols)
    stats = None if gamma is None else x.new_empty(rows, 2)
    launch(
        activate_kernel, (blocks(rows, tile["M"]),), x, stride, out, out.stride(0), gamma, beta, stats, eps, rows,
        *dropout(drop), K=cols, RELU=relu, THRESHOLD=threshold(drop), enable_fp_fusion=False, **tile,
    )  # fmt: skip
    return stats


def dropout(drop: Drop | None) -> tuple[Tensor | None, int, float]:
    """Dropout as the kernels take it: the rows' ids, None where nothing is dropped, the stream and the scale."""
    return (None, 0, 1.0) if drop is None else (drop.ids, signed(drop.stream), drop.scale)


def threshold(drop: Drop | None) -> int:
    """The threshold of dropout, a constant of the kernels."""
    return 0 if drop is None else drop.threshold


@triton.jit(do_not_specialize=["stream", "rows"])
def activate_kernel(
    x, x_stride, out, out_stride, gamma, beta, stats, eps, rows, ids, stream, scale,
    K: tl.constexpr, RELU: tl.constexpr, THRESHOLD: tl.constexpr, M: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """``M`` rows of ``K`` columns, in a tile ``[M, KP]``."""
    row, live, cols, inside = row_block(rows, K, M, KP)
    y = tl.load(x + row[:, None] * x_stride + cols[None, :], inside, 0.0)
    if gamma is not None:
        mean = tl.div_rn(tl.sum(y, 1), tl.full((M,), K, tl.float32))
        centred = tl.where(inside, y - mean[:, None], 0.0)
        variance = tl.div_rn(tl.sum(centred * centred, 1), tl.full((M,), K, tl.float32))
        rstd = tl.div_rn(tl.full((M,), 1.0, tl.float32), tl.sqrt_rn(variance + eps))
        tl.store(stats + 2 * row, mean, live)
        tl.store(stats + 2 * row + 1, rstd, live)
        scaled = centred * rstd[:, None] * tl.load(gamma + cols, cols < K, 0.0)[None, :]
        y = scaled + tl.load(beta + cols, cols < K, 0.0)[None, :]
    if RELU:
        y = tl.where(y < 0, 0.0, y)  # keeps NaN, so that divergence shows
    if ids is not None:
        y = y * drop_factor(stream, tl.load(ids + row, live, 0), cols, scale, THRESHOLD)
    tl.store(out + row[:, None] * out_stride + cols[None, :], y, inside)
