"""Grades of halo nodes: more bits for those of higher in-degree, the same at both ends without a word on the wire."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from halowire.partitioning import Shard

BASES = (1, 2, 4, 8)


def grade_bits(base: int) -> tuple[int, ...]:
    """Bits of the grades of ``base``, rising to 8: 1, 2, 4, 8 for base 1; 2, 4, 8; 4, 8; 8."""
    return tuple(bits for bits in BASES if bits >= base)


def grades_of(degree: Tensor, counts: Sequence[int], base: int) -> Tensor:
    """The grade of every row of a list grouped by peer, int64 ``[m]``: ``floor(r G / m_p)``.

    Of the ``m_p`` rows for peer ``p``, row of rank ``r`` by ``degree`` (ascending, equals in the order of the list)
    falls into one of ``G`` equal shares; the last share has the highest degrees. Owner and receiver hold the same list.
    """
    number, found = len(grade_bits(base)), torch.empty(degree.numel(), dtype=torch.int64)
    for grades, values in zip(torch.split(found, list(counts)), torch.split(degree, list(counts)), strict=True):
        order = values.argsort(stable=True)
        grades[order] = torch.arange(len(values)) * number // max(1, len(values))
    return found


def halo_degree(shard: Shard) -> Tensor:
    """In-degree in the whole graph of every halo row, each with one self loop; sums of weights where there are any."""
    return shard.symmetric_degree[shard.num_owned :]


def sent_degree(shard: Shard) -> Tensor:
    """The same of every row of the send list."""
    return shard.symmetric_degree[shard.send_index]


def grade_counts(shard: Shard) -> Tensor:
    """Halo rows of one worker in every grade of base 1, then of base 2, of base 4, of base 8; int64 ``[10]``."""
    degree, counts = halo_degree(shard), shard.recv_counts
    each = [grades_of(degree, counts, base).bincount(minlength=len(grade_bits(base))) for base in BASES]
    return torch.cat(each)


def by_base(counts: Tensor) -> dict[int, tuple[int, ...]]:
    """:func:`grade_counts`, of one worker or summed over all, by base."""
    split = torch.split(counts, [len(grade_bits(base)) for base in BASES])
    return {base: tuple(part.tolist()) for base, part in zip(BASES, split, strict=True)}
