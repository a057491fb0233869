"""Sums of packed rows on a GPU: forward over a row's edges, backward over the copies of a row whose gradients return.

Rows are decoded in registers; the decoded matrix never exists in memory.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from halowire.kernels.triton.launches import blocks, edge_tile, launch
from halowire.kernels.triton.unpacker import decode


def aggregate_packed(
    indptr: Tensor,
    indices: Tensor,
    weight: Tensor | None,
    data: Tensor,
    size: int,
    bits: int,
    out: Tensor,
    stride: int,
    accumulate: bool,
) -> None:
    """``out[i] (+)= sum over e in row i of weight[e] * decode(row indices[e] of data)``, packed rows of ``size`` bytes.

    Without ``weight`` all are ones: so are the sums over the places from which a row's gradients return.
    """
    rows, cols = out.shape
    tile = edge_tile(cols, most=128)
    launch(
        packed_sums_kernel, (rows, blocks(cols, tile["CB"])), indptr, indices, weight, data, out, stride, K=cols,
        ROW_BYTES=size, BITS=bits, ADD=accumulate, **tile,
    )  # fmt: skip


@triton.jit
def packed_sums_kernel(
    indptr, indices, weight, data, out, out_stride,
    K: tl.constexpr, ROW_BYTES: tl.constexpr, BITS: tl.constexpr, ADD: tl.constexpr,
    EB: tl.constexpr, CB: tl.constexpr,
):  # fmt: skip
    """One row of the result, ``CB`` columns of it; ``EB`` edges at a time, added in one order."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * CB + tl.arange(0, CB)
    first = tl.load(indptr + row)
    last = tl.load(indptr + row + 1)
    total = tl.zeros((EB, CB), tl.float32)
    for start in range(first, last, EB):
        entry = start + tl.arange(0, EB)
        live = entry < last
        inside = live[:, None] & (cols < K)[None, :]
        at = data + tl.load(indices + entry, live, 0).to(tl.int64) * ROW_BYTES
        values = decode(at, cols, live, inside, BITS)
        if weight is not None:
            values = values * tl.load(weight + entry, live, 0.0)[:, None]
        total += tl.where(inside, values, 0.0)
    place = out + row * out_stride + cols
    result = tl.sum(total, 0)
    if ADD:
        result += tl.load(place, cols < K, 0.0)
    tl.store(place, result, cols < K)
