"""One pass over bytes that were read: their checksum, and the first value that an array must not hold."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels.dispatch import call, check_bytes, check_vector, native_for, run, simd_level
from halowire.kernels.scan import WHOLE, first_fall, first_not_finite, first_outside, found


class Kind(IntEnum):
    """What values must be; the numbers that native code knows."""

    ANY = 0
    RANGE = 1
    FINITE = 2
    POSITIVE = 3
    RISING = 4


TYPES = {
    Kind.RANGE: WHOLE,
    Kind.FINITE: (torch.float32,),
    Kind.POSITIVE: (torch.float32,),
    Kind.RISING: (torch.int64,),
}


@dataclass(frozen=True)
class Rule:
    """Values must be of a ``kind``; those of a range are whole numbers from ``low`` to ``high - 1``."""

    kind: Kind = Kind.ANY
    low: int = 0
    high: int = 0


def look(
    piece: Tensor, start: int, dtype: torch.dtype, rule: Rule, crc: int = 0, before: int = 0
) -> tuple[int, int | None]:
    """The checksum of a piece of a file, and the first place whose value breaks ``rule``; None where there is none.

    Args:
        piece: uint8 ``[n]``, what was read.
        start: the byte where the values begin, a multiple of their size; the last value is whole.
        dtype: the type of the values.
        rule: what they must be; for any, only the checksum is computed.
        crc: the CRC-32 checksum of all that comes before the piece.
        before: the value before the first one, where values must rise.
    """
    check_bytes("piece", piece)
    ruled = rule.kind != Kind.ANY
    size = dtype.itemsize if ruled else 1
    if ruled and (dtype not in TYPES[rule.kind] or start % size or (piece.numel() - start) % size):
        raise InputError(
            f"piece has {dtype} from byte {start} to {piece.numel()}, but must have whole values of one of "
            f"{', '.join(map(str, TYPES[rule.kind]))}"
        )
    native = _native(piece)
    if native is None:
        return look_twin(piece, start, dtype, rule, crc, before)
    arguments = piece.numel(), start, crc, int(rule.kind), size, rule.low, rule.high, before
    checksum, place = run(native.look, piece, *arguments)
    return checksum, found(place)


def look_twin(
    piece: Tensor, start: int, dtype: torch.dtype, rule: Rule, crc: int, before: int
) -> tuple[int, int | None]:
    """:func:`look` with zlib and a second pass."""
    crc = zlib.crc32(piece.numpy().data, crc)
    if rule.kind == Kind.ANY:
        return crc, None
    values = piece[start:].view(dtype)
    if rule.kind == Kind.RANGE:
        return crc, first_outside(values, rule.low, rule.high)
    if rule.kind == Kind.RISING:
        return crc, 0 if values.numel() and int(values[0]) < before else first_fall(values)
    return crc, first_not_finite(values, rule.kind == Kind.POSITIVE)


def peer_digests(ids: Tensor, index: Tensor | None, counts: Sequence[int]) -> list[int]:
    """The CRC-32 checksums of ``ids[index]`` for every peer, whose ``counts`` entries follow each other.

    ``ids`` and ``index`` are int64 vectors; entries outside ``ids`` are refused. Without ``index``, all ids are taken.
    """
    check_vector("ids", ids, (torch.int64,), sum(counts) if index is None else None)
    if index is not None:
        check_vector("index", index, (torch.int64,), sum(counts))
    if any(count < 0 for count in counts):
        raise InputError(f"counts are {list(counts)}, but must be at least 0")
    native = _native(ids, index)
    if native is None:
        return peer_digests_twin(ids, index, counts)
    sizes = torch.tensor(counts, dtype=torch.int64)
    digests: list[int] = run(native.digests, ids, ids.numel(), index, sizes, len(counts))
    if len(digests) != len(counts):
        raise InputError(f"index has an entry outside 0..{ids.numel() - 1}")
    return digests


def peer_digests_twin(ids: Tensor, index: Tensor | None, counts: Sequence[int]) -> list[int]:
    """:func:`peer_digests` in torch and zlib."""
    if index is not None and first_outside(index, 0, ids.numel()) is not None:
        raise InputError(f"index has an entry outside 0..{ids.numel() - 1}")
    taken = ids if index is None else ids[index]
    return [zlib.crc32(one.contiguous().numpy().data) for one in torch.split(taken, list(counts))]


def mark(places: Tensor, table: Tensor) -> int | None:
    """Set ``table`` (uint8) to 1 at ``places`` (int64); returns how many were 0 before, None if a place is outside."""
    check_vector("places", places, (torch.int64,))
    check_vector("table", table, (torch.uint8,))
    native = native_for(places, table)
    if native is None or not hasattr(native, "mark"):
        return mark_twin(places, table)
    return found(call(native.mark, places, places.numel(), table.numel(), table))


def mark_twin(places: Tensor, table: Tensor) -> int | None:
    """:func:`mark` in torch."""
    if first_outside(places, 0, table.numel()) is not None:
        return None
    before = int(table.count_nonzero())
    table[places] = 1
    return int(table.count_nonzero()) - before


def _native(*tensors: Tensor | None) -> Any | None:
    """The native module, where it serves better than zlib: its portable checksum takes one byte after the other."""
    native = native_for(*tensors)
    # A module that was built before these kernels existed serves all others.
    return native if hasattr(native, "look") and simd_level() != "portable" else None
