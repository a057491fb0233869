"""Rows as bytes: quantised and packed for the wire, unpacked, and summed straight from their packed form.

A row of ``k`` float32 values at ``b`` bits is ``[lo bf16][hi bf16][payload]``, little endian; value ``j`` takes bits
``[j b, (j + 1) b)`` of the payload, least significant first; unused bits are 0. With ``L = 2^b - 1``:

- ``minmax``: ``lo`` is the row's minimum rounded down to bf16, ``hi`` its maximum rounded up;
  ``q = floor((h - lo) L / (hi - lo) + u)`` in ``0 .. L``, ``u`` uniform in ``[0, 1)``, so that ``E[q]`` is exact;
- ``levels`` (1 bit): with ``m`` the row's mean, ``q = h > m``, ``lo`` and ``hi`` the means of the values ``<= m`` and
  ``> m`` to the nearest bf16 (equal where one side is empty); sums have one order, 16 partial sums by column number
  modulo 16 and then a tree, whatever the SIMD width;
- ``levels`` (2, 4 bits): with these two means ``a`` and ``b``, ``lo`` and ``hi`` are ``(a + b) / 2 -+ r (b - a) / 2``,
  but not beyond the row's ends, to the nearest bf16; ``r = 1.8723`` and ``3.151`` give the range that loses least of a
  normal row (0.119 and 0.0115 of its variance); ``q = floor((h - lo) L / (hi - lo) + 1/2)``, clipped to ``0 .. L``;
- ``clipped`` (1 bit): ``lo`` and ``hi`` in the same way with ``r = 1.5``, ``q = floor((h - lo) / (hi - lo) + u)``,
  clipped to 0 and 1: exact in the mean as ``minmax`` for all values between ``lo`` and ``hi``, with less noise, since
  values beyond them (a quarter of a normal row) do not widen the range;
- a value decodes to ``lo + q ((hi - lo) (1 / L))``, to ``lo`` or ``hi`` itself at 1 bit, in float32 without fused
  operations. Bytes and decoded values therefore are the same for all implementations;
- 16 bits: bf16 to nearest even, without ``lo`` and ``hi``.

``lo`` and ``hi`` of finite rows are finite: what would round to infinity takes the largest bf16. Where ``hi - lo`` or
``L / (hi - lo)`` is no positive finite float32 (constant rows, tiny or huge ranges) ``hi = lo`` and ``q = 0`` are sent;
a ``levels`` row of huge range sends its mean for both. A row with a NaN or an infinity decodes to NaN throughout, so
that divergence shows; at 16 bits every value stands for itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import packing_twin as twin
from halowire.kernels.aggregate import aggregate_twin, count_matrix_rows
from halowire.kernels.buffers import rows_for
from halowire.kernels.dispatch import (
    INDEX_TYPES,
    adjacent,
    check_bytes,
    check_rows,
    check_vector,
    matrix_of,
    native_for,
    run,
    strided,
    threads_for,
    triton_for,
)

BITS = (1, 2, 4, 8, 16)
CODE_BITS = {"minmax": (1, 2, 4, 8), "levels": (1, 2, 4), "clipped": (1,)}
"""The bits that every code takes; a code's place in this table is its number in native code."""
HEADER_BYTES = 4
WORK_PER_ELEMENT = 4

Targets = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Packing:
    """How a float32 row becomes bytes.

    Attributes:
        bits: bits per value: 1, 2, 4, 8 (quantised) or 16 (bf16).
        code: ``"minmax"``, or ``"levels"`` (1, 2 or 4 bits), or ``"clipped"`` (1 bit).
    """

    bits: int
    code: str = "minmax"

    def __post_init__(self) -> None:
        if self.bits not in BITS:
            raise InputError(f"bits is {self.bits}, but must be one of {', '.join(map(str, BITS))}")
        if self.code not in CODE_BITS:
            raise InputError(f"code is {self.code!r}, but must be one of {', '.join(CODE_BITS)}")
        if self.bits != 16 and self.bits not in CODE_BITS[self.code]:
            takes = ", ".join(map(str, CODE_BITS[self.code]))
            raise InputError(
                f"the code {self.code!r} takes {takes} bits per value, but bits is {self.bits}: use 'minmax'"
            )

    def row_bytes(self, columns: int) -> int:
        """Exact bytes of a row: ``ceil(bits columns / 8) + 4``, or ``2 columns`` at 16 bits."""
        return 2 * columns if self.bits == 16 else -(-self.bits * columns // 8) + HEADER_BYTES


def code_for(code: str, bits: int) -> str:
    """``code`` where it can use ``bits`` bits per value, else ``"minmax"``."""
    return code if bits in CODE_BITS[code] else "minmax"


def pack_rows(
    x: Tensor,
    packing: Packing,
    stream: int,
    ids: Tensor,
    out: Tensor,
    columns: Tensor | None = None,
    targets: Targets | None = None,
) -> None:
    """Quantise every row once and write its bytes to each of its places in ``out``.

    Args:
        x: float32 ``[n, k]``.
        packing: how a row becomes bytes.
        stream: 64-bit key from ``stream_key``; the random bits are a function of (stream, id, column) alone.
        ids: int64 ``[n]``, original node ids.
        out: uint8, contiguous; read as rows of ``packing.row_bytes(columns packed)`` bytes each.
        columns: int32 ``[k']``, pack these only; each keeps the random bits of its number in ``x``. None: all.
        targets: ``indptr`` int64 ``[n + 1]`` and positions, int32 or int64: the rows of ``out`` that row ``r`` goes to
            are ``positions[indptr[r] : indptr[r + 1]]``, possibly none. None: row ``r`` goes to row ``r``.
    """
    check_rows("x", x)
    rows = x.shape[0]
    check_vector("ids", ids, (torch.int64,), rows)
    check_columns(columns, x.shape[1])
    check_targets(targets, rows)
    check_bytes("out", out)
    cols = x.shape[1] if columns is None else columns.numel()
    size = packing.row_bytes(cols)
    indptr, positions = (None, None) if targets is None else targets
    gpu = triton_for(cols, x, ids, out, columns, indptr, positions)
    if gpu is not None:
        if targets is None and rows > out.numel() // size:
            raise twin.outside(torch.arange(rows), out.numel() // size, size)
        gpu.pack_rows(*strided(x), packing.bits, packing.code, stream, ids, out, size, columns, targets)
        return
    native = native_for(x, ids, out, columns, indptr, positions)
    if native is None or not cols:
        twin.pack_rows(x, packing.bits, packing.code, stream, ids, out, size, columns, targets)
        return
    places, wide = out.numel() // size, positions is not None and positions.dtype == torch.int64
    count = 0 if positions is None else positions.numel()
    inside = run(
        native.pack_rows, *strided(x), rows, cols, x.shape[1], columns, packing.bits,
        list(CODE_BITS).index(packing.code), stream, ids, indptr, positions, wide, count, out, size, places,
        threads_for(rows * cols * WORK_PER_ELEMENT),
    )  # fmt: skip
    if not inside:
        raise twin.outside(torch.arange(rows) if positions is None else positions, places, size)


def unpack_rows(data: Tensor, packing: Packing, k: int, out: Tensor | None = None) -> Tensor:
    """Decode ``data``, uint8 with ``m`` packed rows of ``k`` columns, to float32 ``[m, k]``, into ``out`` if given."""
    rows = count_rows(data, packing, k)
    out = rows_for(rows, k, data.device, out)
    size = packing.row_bytes(k)
    gpu = triton_for(k, data, out)
    if gpu is not None and adjacent(out):
        gpu.unpack_rows(data, size, packing.bits, *strided(out))
        return out
    native = native_for(data, out)
    if native is None or not adjacent(out):
        return out.copy_(twin.unpack_rows(data.reshape(rows, size), packing.bits, k))
    run(native.unpack_rows, data, size, packing.bits, *strided(out), rows, k, threads_for(rows * k))
    return out


def aggregate_packed(
    indptr: Tensor,
    indices: Tensor,
    weight: Tensor | None,
    data: Tensor,
    packing: Packing,
    k: int,
    out: Tensor | None = None,
    accumulate: bool = False,
) -> Tensor:
    """``out[i] (+)= sum over e in row i of weight[e] * decode(row indices[e] of data)``, without the decoded matrix.

    Equals ``aggregate`` of ``unpack_rows`` within rounding; deterministic, whatever the number of threads.

    Args:
        indptr: int64 ``[rows + 1]``, ascending.
        indices: int32 or int64 ``[nnz]``, each a row of ``data`` (not checked here).
        weight: float32 ``[nnz]``, or None for ones.
        data: uint8 holding ``m`` packed rows of ``k`` columns.
        out: float32 ``[rows, k]``; a buffer from the pool if not given.
        accumulate: add to ``out`` instead of overwriting it.
    """
    rows = count_matrix_rows(indptr, indices, weight)
    count = count_rows(data, packing, k)
    out = rows_for(rows, k, data.device, out, accumulate)
    size = packing.row_bytes(k)
    gpu = triton_for(k, indptr, indices, weight, data, out)
    if gpu is not None and adjacent(out):
        gpu.aggregate_packed(indptr, indices, weight, data, size, packing.bits, *strided(out), accumulate)
        return out
    native = native_for(indptr, indices, weight, data, out)
    if native is None or not adjacent(out):
        decoded = twin.unpack_rows(data.reshape(count, size), packing.bits, k)
        return aggregate_twin(indptr, indices, weight, decoded, out, accumulate)
    run(
        native.aggregate_packed, *matrix_of(indptr, indices, count), weight, data, size, data.numel(), packing.bits,
        *strided(out), rows, k, accumulate, threads_for((indices.numel() + rows) * k),
    )  # fmt: skip
    return out


def check_columns(columns: Tensor | None, width: int) -> None:
    """Raise unless ``columns`` are int32 numbers of the ``width`` columns of a row.

    On a device only their type is checked: to read their values, the host would wait.
    """
    if columns is None:
        return
    check_vector("columns", columns, (torch.int32,))
    if columns.device.type == "cpu" and columns.numel() and (int(columns.min()) < 0 or int(columns.max()) >= width):
        raise InputError(f"columns {int(columns.min())} to {int(columns.max())} are asked for of {width}")


def check_targets(targets: Targets | None, rows: int) -> None:
    """Raise unless ``targets`` name positions for each of ``rows`` rows."""
    if targets is None:
        return
    indptr, positions = targets
    check_vector("indptr of targets", indptr, (torch.int64,), rows + 1)
    check_vector("positions of targets", positions, INDEX_TYPES)
    if indptr.device.type == "cpu" and int(indptr[-1]) > positions.numel():
        raise InputError(f"targets end at {int(indptr[-1])}, but there are {positions.numel()} positions")


def count_rows(data: Tensor, packing: Packing, k: int) -> int:
    """How many packed rows of ``k`` columns ``data`` holds; raises if they do not fill it exactly."""
    check_bytes("data", data)
    size = packing.row_bytes(k)
    if size == 0:
        return data.shape[0] if data.dim() == 2 else 0
    if data.numel() % size:
        raise InputError(f"data has {data.numel()} bytes, but {packing.bits}-bit rows of {k} columns take {size} each")
    return data.numel() // size
