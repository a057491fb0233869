"""The counter-based random bits of `counter_random`, in Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def drawn_bits(stream, ids, columns):
    """32 random bits for every id and column, uint32 ``[n, k]``; ``stream`` is the signed form of its key."""
    value = ids.to(tl.uint64) * 0x9E3779B97F4A7C15 + stream.to(tl.uint64)
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB
    key = value ^ (value >> 31)
    bits = key.to(tl.uint32)[:, None] + columns.to(tl.uint32)[None, :] * 0x9E3779B9
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = bits ^ (key >> 32).to(tl.uint32)[:, None]
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    return bits ^ (bits >> 16)


@triton.jit
def drawn_uniform(stream, ids, columns):
    """A multiple of 2^-24 in ``[0, 1)`` for every id and column, float32 ``[n, k]``."""
    return (drawn_bits(stream, ids, columns) >> 8).to(tl.float32) * 5.9604644775390625e-08


@triton.jit
def drop_factor(stream, ids, columns, scale, THRESHOLD: tl.constexpr):
    """The factors of dropout: ``scale`` where the random bits reach ``THRESHOLD``, else 0."""
    stays = drawn_bits(stream, ids, columns) >= tl.full((), THRESHOLD, tl.uint32)
    return tl.where(stays, scale, 0.0)
