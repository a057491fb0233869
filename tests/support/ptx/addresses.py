"""Addresses, the bytes of numbers, and the errors of accesses, which global and shared memory have in common."""

from __future__ import annotations

import re

import numpy as np

from tests.support.ptx.lanes import Array, Lanes
from tests.support.ptx.program import Instruction, KernelError


def offset_of(lanes: Lanes, operand: str) -> Array:
    """The addresses that an operand such as ``[%rd1+16]`` names, int64."""
    found = re.fullmatch(r"\[\s*([%\w$.]+)\s*(?:\+\s*(-?\w+))?\s*\]", operand)
    if found is None:
        raise KernelError(f"cannot read the address {operand}")
    return lanes.raw(found[1]).astype(np.int64) + int(found[2] or "0", 0)


def values_of(data: Array) -> Array:
    """Little-endian bytes ``[n, width]`` as uint64 ``[n]``."""
    weights = np.uint64(1) << (np.arange(data.shape[1], dtype=np.uint64) * np.uint64(8))
    return (data.astype(np.uint64) * weights).sum(1, dtype=np.uint64)


def bytes_of(values: Array, width: int) -> Array:
    """uint64 ``[n]`` as little-endian bytes ``[n, width]``."""
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(8)
    return ((values[:, None] >> shifts) & np.uint64(255)).astype(np.uint8)


def aligned(lanes: Lanes, at: Array, width: int, active: Array, one: Instruction) -> None:
    """Raise unless all addresses are multiples of ``width``, as an access of as many bytes needs."""
    skewed = active & (at % width != 0)
    if bool(skewed.any()):
        raise wrong_access("MISALIGNED", lanes, at, skewed, one)


def marked(lanes: Lanes, which: Array) -> Array:
    """bool ``[threads]``, true for ``which``."""
    found = np.zeros(lanes.count, bool)
    found[which] = True
    return found


def wrong_access(what: str, lanes: Lanes, at: Array, who: Array, one: Instruction) -> KernelError:
    """The error for an access, naming the first of the threads ``who``."""
    first = int(np.flatnonzero(who)[0])
    place = f"thread {lanes.thread[first]} of block {lanes.block[first]}, address {int(at[first]):#x}"
    return KernelError(f"{what}: {place}, {one}")
