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
from halowire.kernels.dispatch import check_bytes, check_vector, native_for, run, simd_level
from halowire.kernels.scan import WHOLE, first_fall_twin, first_not_finite_twin, first_outside_twin, found


class Kind(IntEnum):
    """What values must be; the numbers that native code knows."""

    ANY = 0
    RANGE = 1
    FINITE = 2
    POSITIVE = 3
    RISING = 4


ZEROS = 1 << 20
"""Bytes of zeros that the twin takes a checksum of at once."""
TYPES = {
    Kind.RANGE: WHOLE,
    Kind.FINITE: (torch.float32,),
    Kind.POSITIVE: (torch.float32,),
    Kind.RISING: (torch.int64,),
}


@dataclass(frozen=True)
class Rule:
    """Values must be of a ``kind``; where they have a range or must rise, they are from ``low`` to ``high - 1``."""

    kind: Kind = Kind.ANY
    low: int = 0
    high: int = 0


def look(
    piece: Tensor, start: int, dtype: torch.dtype, rule: Rule, crc: int = 0, before: int | None = None
) -> tuple[int, int | None]:
    """The checksum of a piece of a file, and the first place whose value breaks ``rule``; None where there is none.

    Args:
        piece: uint8 ``[n]``, what was read.
        start: the byte where the values begin, a multiple of their size; the last value is whole.
        dtype: the type of the values.
        rule: what they must be; for any, only the checksum is computed.
        crc: the CRC-32 checksum of all that comes before the piece.
        before: the value before the first one, where values must rise; None where the piece begins a run of them.
    """
    check_bytes("piece", piece)
    ruled = rule.kind != Kind.ANY
    size = dtype.itemsize if ruled else 1
    if ruled and (dtype not in TYPES[rule.kind] or start % size or (piece.numel() - start) % size):
        raise InputError(
            f"piece has {dtype} from byte {start} to {piece.numel()}, but must have whole values of one of "
            f"{', '.join(map(str, TYPES[rule.kind]))}"
        )
    before = rule.low if before is None else before
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
        return crc, first_outside_twin(values, rule.low, rule.high)
    if rule.kind == Kind.RISING:
        return crc, first_fall_twin(values, before, rule.high)
    return crc, first_not_finite_twin(values, rule.kind == Kind.POSITIVE)


def joined_checksum(first: int, second: int, size: int) -> int:
    """The CRC-32 checksum of two pieces, one after the other, from those of each; the second has ``size`` bytes."""
    native = _native()
    if native is None:
        return joined_checksum_twin(first, second, size)
    checksum: int = native.joined_checksum(first, second, size)
    return checksum


def joined_checksum_twin(first: int, second: int, size: int) -> int:
    """:func:`joined_checksum` with zlib: a checksum is linear, so that one of zeros moves the first piece on."""
    zeros = bytes(min(size, ZEROS))
    moved, still = first, 0
    for begin in range(0, size, ZEROS):
        count = min(size - begin, ZEROS)
        moved, still = zlib.crc32(zeros[:count], moved), zlib.crc32(zeros[:count], still)
    return moved ^ still ^ second


def peer_digests(ids: Tensor, index: Tensor | None, counts: Sequence[int], taken: Tensor | None = None) -> list[int]:
    """The CRC-32 checksums of ``ids[index]`` for every peer, whose ``counts`` entries follow each other.

    ``ids`` and ``index`` are int64 vectors; entries outside ``ids`` are refused. Without ``index``, all ids are taken.
    ``taken``, bool and of the length of ``ids``, becomes true at every entry of ``index``.
    """
    check_vector("ids", ids, (torch.int64,), sum(counts) if index is None else None)
    if index is not None:
        check_vector("index", index, (torch.int64,), sum(counts))
    taken = torch.zeros(ids.numel(), dtype=torch.bool) if taken is None else taken
    check_vector("taken", taken, (torch.bool,), ids.numel())
    if any(count < 0 for count in counts):
        raise InputError(f"counts are {list(counts)}, but must be at least 0")
    native = _native(ids, index)
    if native is None:
        return peer_digests_twin(ids, index, counts, taken)
    sizes = torch.tensor(counts, dtype=torch.int64)
    digests: list[int] = run(native.digests, ids, ids.numel(), index, sizes, len(counts), taken)
    if len(digests) != len(counts):
        raise InputError(f"index has an entry outside 0..{ids.numel() - 1}")
    return digests


def peer_digests_twin(ids: Tensor, index: Tensor | None, counts: Sequence[int], taken: Tensor) -> list[int]:
    """:func:`peer_digests` in torch and zlib."""
    if index is None:
        sent = ids
    elif mark_twin(index, taken):
        sent = ids[index]
    else:
        raise InputError(f"index has an entry outside 0..{ids.numel() - 1}")
    return [zlib.crc32(one.contiguous().numpy().data) for one in torch.split(sent, list(counts))]


def mark(places: Tensor, table: Tensor) -> bool:
    """Set ``table`` (bool) to true at ``places`` (int64); returns whether all places are inside."""
    check_vector("places", places, (torch.int64,))
    check_vector("table", table, (torch.bool,))
    native = native_for(places, table)
    if native is None:
        return mark_twin(places, table)
    inside: bool = run(native.mark, places, places.numel(), table.numel(), table)
    return inside


def mark_twin(places: Tensor, table: Tensor) -> bool:
    """:func:`mark` in torch."""
    if first_outside_twin(places, 0, table.numel()) is not None:
        return False
    table[places] = True
    return True


def _native(*tensors: Tensor | None) -> Any | None:
    """The native module, where it serves better than zlib: its portable checksum takes one byte after the other."""
    native = native_for(*tensors)
    return native if native is not None and simd_level() != "portable" else None
