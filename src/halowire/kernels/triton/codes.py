"""The codes of `packing`, in Triton: ``lo`` and ``hi`` of every row as bf16 patterns, and the code of every value."""

from __future__ import annotations

import triton
import triton.language as tl

from halowire.kernels.triton.patterns import (
    NOT_A_NUMBER,
    finite,
    nearest_finite,
    ordered,
    outwards,
    widened,
)
from halowire.kernels.triton.side_means import safe_means


@triton.jit
def extremes(x, inside):
    """The patterns of the least and the largest value of every row."""
    # Ordered as integers, -0 comes before 0 and NaN beyond infinity, whatever the order of comparisons.
    order = ordered(x.to(tl.int32, bitcast=True))
    least = tl.min(tl.where(inside, order, 0x7FFFFFFF), 1)
    largest = tl.max(tl.where(inside, order, -0x80000000), 1)
    return ordered(least), ordered(largest)


@triton.jit
def steps(lo, hi, BITS: tl.constexpr, M: tl.constexpr):
    """Codes per unit between ``lo`` and ``hi``, and where that is a positive finite number."""
    span = widened(hi) - widened(lo)
    scale = tl.div_rn(tl.full((M,), 2**BITS - 1, tl.float32), span)
    return scale, (span > 0) & finite(span) & finite(scale)


@triton.jit
def level_of(x, lo, scale, u, BITS: tl.constexpr):
    """``floor((x - lo) scale + u)``, clipped to the codes that ``BITS`` bits hold; 0 where it is no number."""
    level = (x - widened(lo)[:, None]) * scale[:, None] + u
    level = tl.where(level > 0, level, 0.0)
    return tl.minimum(level, 2.0**BITS - 1).to(tl.int32)


@triton.jit
def minmax(x, inside, u, BITS: tl.constexpr, M: tl.constexpr):
    """The code ``minmax``: the row's ends, rounded outwards."""
    low, high = extremes(x, inside)
    good = finite(low.to(tl.float32, bitcast=True)) & finite(high.to(tl.float32, bitcast=True))
    lo = tl.where(good, outwards(low, low < 0), NOT_A_NUMBER)
    hi = tl.where(good, outwards(high, high >= 0), NOT_A_NUMBER)
    scale, usable = steps(lo, hi, BITS, M)
    return lo, tl.where(usable, hi, lo), level_of(x, lo, tl.where(usable, scale, 0.0), u, BITS)


@triton.jit
def two_levels(x, base, columns, live, K: tl.constexpr, M: tl.constexpr, SUBSET: tl.constexpr):
    """The code ``levels`` at one bit: the means of the values on either side of the row's mean."""
    mean, low, high, factor, scaled, bad = safe_means(base, columns, live, K, M, SUBSET)
    lo = nearest_finite(low)
    hi = nearest_finite(high)
    one = bad | ~finite(widened(hi) - widened(lo))
    middle = tl.where(bad, NOT_A_NUMBER, nearest_finite(mean))
    above = (x * factor[:, None] > scaled[:, None]) & ~one[:, None]
    return tl.where(one, middle, lo), tl.where(one, middle, hi), above.to(tl.int32)


@triton.jit
def clipped_levels(
    x, inside, base, columns, live, u, REACH: tl.constexpr, BITS: tl.constexpr,
    K: tl.constexpr, M: tl.constexpr, SUBSET: tl.constexpr,
):  # fmt: skip
    """``clipped``, and ``levels`` above one bit: equally spaced levels around the middle of the two means."""
    mean, low, high, _, _, bad = safe_means(base, columns, live, K, M, SUBSET)
    middle = low * 0.5 + high * 0.5
    reach = (high * 0.5 - low * 0.5) * REACH
    least, largest = extremes(x, inside)
    bottom = least.to(tl.float32, bitcast=True)
    top = largest.to(tl.float32, bitcast=True)
    lo = nearest_finite(tl.where(middle - reach > bottom, middle - reach, bottom))
    hi = nearest_finite(tl.where(middle + reach < top, middle + reach, top))
    scale, usable = steps(lo, hi, BITS, M)
    usable = usable & ~bad
    same = tl.where(bad, NOT_A_NUMBER, nearest_finite(mean))
    lo = tl.where(usable, lo, same)
    q = tl.where(usable[:, None], level_of(x, lo, scale, u, BITS), 0)
    return lo, tl.where(usable, hi, same), q
