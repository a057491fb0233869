"""float32 and bf16 numbers as their bit patterns, in Triton; the same operations as `packing_twin`."""

from __future__ import annotations

import triton
import triton.language as tl

LARGEST = tl.constexpr(0x7F7F)
NOT_A_NUMBER = tl.constexpr(0x7FC0)
EXPONENT = tl.constexpr(0x7F800000)
MAGNITUDE = tl.constexpr(0x7FFFFFFF)


@triton.jit
def ordered(pattern):
    """Turn float32 patterns into int32 that are ordered as the values are, and back."""
    return pattern ^ ((pattern >> 31) & MAGNITUDE)


@triton.jit
def outwards(pattern, away):
    """Round finite float32 patterns to bf16: away from zero where ``away``, else towards it; never infinite."""
    size = pattern & MAGNITUDE
    more = ((size & 0xFFFF) != 0) & away
    return tl.minimum((size >> 16) + more.to(tl.int32), LARGEST) | ((pattern < 0).to(tl.int32) << 15)


@triton.jit
def nearest(value):
    """Round float32 values to the nearest bf16, ties to even; the patterns are int32."""
    pattern = value.to(tl.uint32, bitcast=True)
    rounded = ((pattern + 0x7FFF + ((pattern >> 16) & 1)) >> 16).to(tl.int32)
    return tl.where((pattern & MAGNITUDE) > EXPONENT, NOT_A_NUMBER, rounded)


@triton.jit
def nearest_finite(value):
    """Like :func:`nearest`, but what would round to infinity becomes the largest bf16."""
    pattern = nearest(value)
    return tl.minimum(pattern & 0x7FFF, LARGEST) | (pattern & 0x8000)


@triton.jit
def widened(pattern):
    """The float32 values of bf16 patterns."""
    return (pattern << 16).to(tl.float32, bitcast=True)


@triton.jit
def finite(value):
    """Whether values are neither infinite nor NaN."""
    return (value.to(tl.int32, bitcast=True) & EXPONENT) != EXPONENT
