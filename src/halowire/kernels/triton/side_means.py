"""The means of a row and of its two sides, in the one order of additions that all implementations share.

A row is 16 partial sums by column number modulo 16, then a tree; see `packing_twin.side_means`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from halowire.kernels.triton.patterns import finite

SCALE = tl.constexpr(2.0**-32)
BACK = tl.constexpr(2.0**32)


@triton.jit
def group(base, columns, start, live, factor, K: tl.constexpr, SUBSET: tl.constexpr):
    """Columns ``start`` to ``start + 16`` of the rows at ``base``, times ``factor``, and which of them exist."""
    at = start + tl.arange(0, 16)
    inside = live[:, None] & (at < K)[None, :]
    number = tl.load(columns + at, at < K, 0) if SUBSET else at
    return tl.load(base[:, None] + number[None, :], inside, 0.0) * factor[:, None], inside


@triton.jit
def tree(total, M: tl.constexpr):
    """The sum of 16 partial sums ``[M, 16]``: the halves are added until one sum is left."""
    total = tl.sum(tl.reshape(total, (M, 2, 8)), 1)
    total = tl.sum(tl.reshape(total, (M, 2, 4)), 1)
    total = tl.sum(tl.reshape(total, (M, 2, 2)), 1)
    return tl.sum(total, 1)


@triton.jit
def means(base, columns, live, factor, K: tl.constexpr, M: tl.constexpr, SUBSET: tl.constexpr):
    """Three means ``[M]`` of the rows times ``factor``: of all values, of those up to that mean, of those above it."""
    total = tl.zeros((M, 16), tl.float32)
    for start in range(0, K, 16):
        value, inside = group(base, columns, start, live, factor, K, SUBSET)
        total += value
    mean = tl.div_rn(tree(total, M), tl.full((M,), K, tl.float32))
    below = tl.zeros((M, 16), tl.float32)
    above = tl.zeros((M, 16), tl.float32)
    count = tl.zeros((M, 16), tl.int32)
    for start in range(0, K, 16):
        value, inside = group(base, columns, start, live, factor, K, SUBSET)
        over = (value > mean[:, None]) & inside
        above += tl.where(over, value, 0.0)
        below += tl.where(over, 0.0, value)
        count += over.to(tl.int32)
    number = tl.sum(count, 1)
    low = tl.div_rn(tree(below, M), (K - number).to(tl.float32))
    high = tl.div_rn(tree(above, M), number.to(tl.float32))
    return mean, tl.where(number < K, low, high), tl.where(number > 0, high, low)


@triton.jit
def safe_means(base, columns, live, K: tl.constexpr, M: tl.constexpr, SUBSET: tl.constexpr):
    """:func:`means`, scaled down where the sums of huge rows overflow.

    Also returns the factor of every row, the mean of the scaled row, and which rows have no means.
    """
    mean, low, high = means(base, columns, live, tl.full((M,), 1.0, tl.float32), K, M, SUBSET)
    huge = ~(finite(mean) & finite(low) & finite(high))
    factor = tl.where(huge, SCALE, 1.0)
    # No turn or one: around a tile of a single row, triton 3.7.1 cannot translate an `if` for AMD's GPUs.
    for _ in range(0, tl.max(huge.to(tl.int32), 0)):
        mean, low, high = means(base, columns, live, factor, K, M, SUBSET)
    bad = ~(finite(mean) & finite(low) & finite(high))
    back = tl.where(huge, BACK, 1.0)
    return mean * back, low * back, high * back, factor, mean, bad
