"""Rows to bytes on a GPU: a program quantises some rows once and writes each to all its places."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from halowire.kernels.counter_random import signed
from halowire.kernels.packing_twin import REACH
from halowire.kernels.triton.codes import clipped_levels, minmax, two_levels
from halowire.kernels.triton.draws import drawn_uniform
from halowire.kernels.triton.launches import blocks, launch, row_tile
from halowire.kernels.triton.patterns import nearest
from halowire.kernels.triton.tiles import row_block


def pack_rows(
    x: Tensor,
    stride: int,
    bits: int,
    code: str,
    stream: int,
    ids: Tensor,
    out: Tensor,
    size: int,
    columns: Tensor | None,
    targets: tuple[Tensor, Tensor] | None,
) -> None:
    """Pack every row of ``x`` into ``size`` bytes and write them to its places in ``out``.

    A place that ``out`` does not have is left out: to say so, the host would have to wait for the GPU.
    """
    rows, cols = x.shape[0], x.shape[1] if columns is None else columns.numel()
    indptr, positions = (None, None) if targets is None else targets
    tile = row_tile(cols)
    launch(
        pack_kernel, (blocks(rows, tile["M"]),), x, stride, ids, columns, indptr, positions, out, signed(stream), rows,
        out.numel() // size, K=cols, ROW_BYTES=size, BITS=bits, CODE=code, REACH=REACH.get(bits, 0.0),
        enable_fp_fusion=False, **tile,
    )  # fmt: skip


@triton.jit(do_not_specialize=["stream", "rows", "places"])
def pack_kernel(
    x, x_stride, ids, columns, indptr, positions, out, stream, rows, places,
    K: tl.constexpr, ROW_BYTES: tl.constexpr, BITS: tl.constexpr, CODE: tl.constexpr, REACH: tl.constexpr,
    M: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """``M`` rows of ``K`` columns, in a tile ``[M, KP]``."""
    SUBSET: tl.constexpr = columns is not None
    row, live, cols, inside = row_block(rows, K, M, KP)
    number = tl.load(columns + cols, cols < K, 0) if SUBSET else cols
    base = x + row * x_stride
    values = tl.load(base[:, None] + number[None, :], inside, 0.0)
    if BITS == 16:
        write_rows(halves(values, M, KP), row, live, indptr, positions, out, places, ROW_BYTES, 0, 2 * KP)
    else:
        if CODE == "levels":
            if BITS == 1:
                lo, hi, q = two_levels(values, base, columns, live, K, M, SUBSET)
            else:
                lo, hi, q = clipped_levels(values, inside, base, columns, live, 0.5, REACH, BITS, K, M, SUBSET)
        else:
            u = drawn_uniform(stream, tl.load(ids + row, live, 0), number)
            if CODE == "clipped":
                lo, hi, q = clipped_levels(values, inside, base, columns, live, u, REACH, BITS, K, M, SUBSET)
            else:
                lo, hi, q = minmax(values, inside, u, BITS, M)
        each: tl.constexpr = 8 // BITS
        places_of = tl.arange(0, each) * BITS
        groups = tl.reshape(tl.where(inside, q, 0), (M, KP // each, each)) << places_of[None, None, :]
        body = tl.sum(groups, 2).to(tl.uint8)
        end = tl.arange(0, 4)[None, :]
        head = (tl.where(end < 2, lo[:, None], hi[:, None]) >> ((end & 1) * 8)).to(tl.uint8)
        write_rows(head, row, live, indptr, positions, out, places, ROW_BYTES, 0, 4)
        write_rows(body, row, live, indptr, positions, out, places, ROW_BYTES, 4, KP // each)


@triton.jit
def halves(values, M: tl.constexpr, KP: tl.constexpr):
    """The bytes of the nearest bf16 of every value, uint8 ``[M, 2 KP]``, the lower byte first."""
    pattern = nearest(values)
    return tl.reshape(tl.join((pattern & 0xFF).to(tl.uint8), (pattern >> 8).to(tl.uint8)), (M, 2 * KP))


@triton.jit
def write_rows(
    data, row, live, indptr, positions, out, places,
    ROW_BYTES: tl.constexpr, FIRST: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Write ``data`` ``[M, WIDTH]`` from byte ``FIRST`` of each of the places of every row."""
    byte = FIRST + tl.arange(0, WIDTH)
    inside = (byte < ROW_BYTES)[None, :]
    if indptr is None:
        here = live & (row < places)
        tl.store(out + row[:, None] * ROW_BYTES + byte[None, :], data, here[:, None] & inside)
    else:
        begin = tl.load(indptr + row, live, 0)
        count = tl.load(indptr + row + 1, live, 0) - begin
        for step in range(0, tl.max(count, 0)):
            more = step < count
            place = tl.load(positions + begin + step, more, 0).to(tl.int64)
            here = more & (place >= 0) & (place < places)
            tl.store(out + place[:, None] * ROW_BYTES + byte[None, :], data, here[:, None] & inside)
