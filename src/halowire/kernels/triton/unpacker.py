"""Bytes to rows on a GPU, and the decoding that the sums of packed rows share."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from halowire.kernels.triton.launches import blocks, launch, row_tile
from halowire.kernels.triton.patterns import widened
from halowire.kernels.triton.tiles import row_block


def unpack_rows(data: Tensor, size: int, bits: int, out: Tensor, stride: int) -> None:
    """Decode the packed rows of ``size`` bytes in ``data`` into ``out`` ``[rows, k]``."""
    rows, cols = out.shape
    tile = row_tile(cols)
    launch(
        unpack_kernel, (blocks(rows, tile["M"]),), data, out, stride, rows, K=cols, ROW_BYTES=size, BITS=bits,
        enable_fp_fusion=False, **tile,
    )  # fmt: skip


@triton.jit
def decode(at, columns, live, inside, BITS: tl.constexpr):
    """The ``columns`` ``[k]`` of the packed rows at the addresses ``at`` ``[m]``, float32 ``[m, k]``."""
    if BITS == 16:
        place = at[:, None] + 2 * columns[None, :]
        values = widened(pair(place, inside))
    else:
        lo = pair(at, live)
        hi = pair(at + 2, live)
        byte = tl.load(at[:, None] + 4 + (columns * BITS // 8)[None, :], inside, 0).to(tl.int32)
        q = (byte >> (columns * BITS % 8)[None, :]) & (2**BITS - 1)
        if BITS == 1:
            values = widened(tl.where(q == 1, hi[:, None], lo[:, None]))
        else:
            step = (widened(hi) - widened(lo)) * (1.0 / (2**BITS - 1))
            values = widened(lo)[:, None] + q.to(tl.float32) * step[:, None]
    return values


@triton.jit
def pair(at, live):
    """Two bytes as one number, the lower byte first."""
    return tl.load(at, live, 0).to(tl.int32) | (tl.load(at + 1, live, 0).to(tl.int32) << 8)


@triton.jit(do_not_specialize=["rows"])
def unpack_kernel(
    data, out, out_stride, rows,
    K: tl.constexpr, ROW_BYTES: tl.constexpr, BITS: tl.constexpr, M: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """``M`` rows of ``K`` columns, in a tile ``[M, KP]``."""
    row, live, cols, inside = row_block(rows, K, M, KP)
    values = decode(data + row * ROW_BYTES, cols, live, inside, BITS)
    tl.store(out + row[:, None] * out_stride + cols[None, :], values, inside)
