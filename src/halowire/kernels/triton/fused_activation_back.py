"""The gradients of LayerNorm, ReLU and dropout on a GPU, in one pass over the rows.

Every program sums the gradients of ``gamma`` and ``beta`` over a block of rows; the blocks are added afterwards.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from halowire.kernels.counter_random import Drop
from halowire.kernels.triton.draws import drop_factor
from halowire.kernels.triton.fused_activation import dropout, threshold
from halowire.kernels.triton.launches import blocks, launch, row_tile

MOST_BLOCKS = 512


def activate_backward(
    grad: Tensor,
    grad_stride: int,
    x: Tensor,
    stride: int,
    stats: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    relu: bool,
    drop: Drop | None,
    out: Tensor,
) -> Tensor | None:
    """Write the gradient of ``x`` to ``out``; returns the gradients of ``gamma`` and ``beta``, ``[2, k]``."""
    rows, cols = x.shape
    tile = row_tile(cols)
    tiles = blocks(rows, tile["M"])
    turns = max(1, blocks(tiles, MOST_BLOCKS))
    count = blocks(tiles, turns)
    partial = None if gamma is None else x.new_empty(count, 2, cols)
    launch(
        activate_back_kernel, (count,), grad, grad_stride, x, stride, out, out.stride(0), gamma, beta, stats, partial,
        rows, turns, *dropout(drop), K=cols, RELU=relu, THRESHOLD=threshold(drop), enable_fp_fusion=False, **tile,
    )  # fmt: skip
    return None if partial is None else partial.sum(0)


@triton.jit(do_not_specialize=["stream", "rows", "turns"])
def activate_back_kernel(
    grad, grad_stride, x, x_stride, out, out_stride, gamma, beta, stats, partial, rows, turns, ids, stream, scale,
    K: tl.constexpr, RELU: tl.constexpr, THRESHOLD: tl.constexpr, M: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """``turns`` tiles of ``M`` rows, one after the other."""
    cols = tl.arange(0, KP)
    block = tl.program_id(0).to(tl.int64)
    gamma_grad = tl.zeros((M, KP), tl.float32)
    beta_grad = tl.zeros((M, KP), tl.float32)
    for turn in range(0, turns):
        row = (block * turns + turn) * M + tl.arange(0, M)
        live = row < rows
        inside = live[:, None] & (cols < K)[None, :]
        g = tl.load(grad + row[:, None] * grad_stride + cols[None, :], inside, 0.0)
        value = tl.load(x + row[:, None] * x_stride + cols[None, :], inside, 0.0)
        if ids is not None:
            g = g * drop_factor(stream, tl.load(ids + row, live, 0), cols, scale, THRESHOLD)
        if gamma is not None:
            rstd = tl.load(stats + 2 * row + 1, live, 0.0)[:, None]
            z = tl.where(inside, (value - tl.load(stats + 2 * row, live, 0.0)[:, None]) * rstd, 0.0)
            factor = tl.load(gamma + cols, cols < K, 0.0)[None, :]
            if RELU:
                g = tl.where(z * factor + tl.load(beta + cols, cols < K, 0.0)[None, :] > 0, g, 0.0)
            gamma_grad += g * z
            beta_grad += g
            t = g * factor
            mean = tl.div_rn(tl.sum(t, 1), tl.full((M,), K, tl.float32))[:, None]
            along = tl.div_rn(tl.sum(t * z, 1), tl.full((M,), K, tl.float32))[:, None]
            g = (t - mean - z * along) * rstd
        elif RELU:
            g = tl.where(value > 0, g, 0.0)
        tl.store(out + row[:, None] * out_stride + cols[None, :], g, inside)
    if gamma is not None:
        place = partial + block * 2 * K + cols
        tl.store(place, tl.sum(gamma_grad, 0), cols < K)
        tl.store(place + K, tl.sum(beta_grad, 0), cols < K)
