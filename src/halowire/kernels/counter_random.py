"""Counter-based random bits: a function of (seed, epoch, layer, stream, id, column), so any worker can draw them.

With ``mix`` the finaliser of splitmix64 and G the odd number nearest to 2^64 / golden ratio, the stream of
(seed, epoch, layer, stream) is ``s <- mix(s + G + value)`` over the four values from ``s = 0``; the key of a row is
``mix(s + id G)``; the bits of a column mix ``low(key) + column G32`` once, take in ``high(key)``, and mix once more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.errors import InputError

GOLDEN = 0x9E3779B97F4A7C15
GOLDEN_32 = 0x9E3779B9
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
FIRST_32, SECOND_32 = 0x7FEB352D, 0x846CA68B
MASK_32, MASK_64 = 2**32 - 1, 2**64 - 1


@dataclass(frozen=True)
class Drop:
    """Dropout of ``n`` rows: the mask is a function of (seed, epoch, layer, original node id, column) alone.

    Attributes:
        p: probability that an element is dropped, ``0 <= p < 1``.
        ids: int64 ``[n]``, original node id of every row.
    """

    p: float
    seed: int
    epoch: int
    layer: int
    ids: Tensor

    def __post_init__(self) -> None:
        if not 0.0 <= self.p < 1.0:
            raise InputError(f"dropout is {self.p}, but must be at least 0 and below 1")

    @property
    def threshold(self) -> int:
        """An element stays iff its 32 random bits reach ``p 2^32``."""
        return min(math.ceil(self.p * 2**32), MASK_32)

    @property
    def scale(self) -> float:
        """The factor of elements that stay, ``1 / (1 - p)``."""
        return 1.0 / (1.0 - self.p)

    @property
    def stream(self) -> int:
        """The stream from which the rows' keys are drawn."""
        return stream_key(self.seed, self.epoch, self.layer)


def mix(value: int) -> int:
    """splitmix64's finaliser on a Python integer."""
    value = ((value ^ (value >> 30)) * FIRST) & MASK_64
    value = ((value ^ (value >> 27)) * SECOND) & MASK_64
    return value ^ (value >> 31)


def stream_key(seed: int, epoch: int, layer: int, stream: int = 0) -> int:
    """The 64-bit key of one stream, which all rows of a draw share."""
    key = 0
    for value in (seed, epoch, layer, stream):
        key = mix((key + GOLDEN + value) & MASK_64)
    return key


def signed(value: int) -> int:
    """The int64 with the same bits as the unsigned ``value``; torch has no unsigned 64-bit arithmetic."""
    return value - 2**64 if value >= 2**63 else value


def shifted(value: Tensor, by: int) -> Tensor:
    """Logical shift to the right of int64 bits."""
    return (value >> by) & (MASK_64 >> by)


def row_keys(seed: int, epoch: int, layer: int, ids: Tensor, stream: int = 0) -> Tensor:
    """The 64-bit key of every row, int64 ``[n]``, from the rows' ``ids`` int64 ``[n]``."""
    return keys_of(stream_key(seed, epoch, layer, stream), ids)


def keys_of(stream: int, ids: Tensor) -> Tensor:
    """The 64-bit key of every row, int64 ``[n]``, in the stream whose ``stream_key`` is given."""
    value = ids.long() * signed(GOLDEN) + signed(stream)
    value = (value ^ shifted(value, 30)) * signed(FIRST)
    value = (value ^ shifted(value, 27)) * signed(SECOND)
    return value ^ shifted(value, 31)


def uniform_bits(keys: Tensor, k: int) -> Tensor:
    """32 random bits for each of ``k`` columns of every row, int64 ``[n, k]`` in ``0 .. 2^32 - 1``."""
    columns = torch.arange(k, device=keys.device) * GOLDEN_32
    bits = ((keys & MASK_32)[:, None] + columns[None, :]) & MASK_32
    bits = ((bits ^ (bits >> 16)) * FIRST_32) & MASK_32
    bits = bits ^ shifted(keys, 32)[:, None]
    bits = ((bits ^ (bits >> 15)) * SECOND_32) & MASK_32
    return bits ^ (bits >> 16)


def drop_factor(drop: Drop, k: int) -> Tensor:
    """The factors of dropout, float32 ``[n, k]``: ``1 / (1 - p)`` where an element stays, else 0."""
    return (uniform_bits(keys_of(drop.stream, drop.ids), k) >= drop.threshold).float() * drop.scale
