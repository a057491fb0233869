"""Graded messages: halo nodes of higher in-degree, or partial sums, get more bits; both ends know how many."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from halowire.kernels import code_for
from halowire.partitioning import HaloLists
from halowire.wire.codec import Codec
from halowire.wire.cover import SUM_ID, CoverLists
from halowire.wire.mixed import Mixed
from halowire.wire.policy import FORWARD, Policy, Rate, codec_of
from halowire.wire.terms import HOST, alike

BASES = (1, 2, 4, 8)


def grade_bits(base: int) -> tuple[int, ...]:
    """Bits of the grades of ``base``, rising to 8: (1, 2, 4, 8) for base 1, (2, 4, 8) for base 2, and so on."""
    return tuple(bits for bits in BASES if bits >= base)


def grades_of(degree: Tensor, counts: Sequence[int], base: int) -> Tensor:
    """The grade of every row of a list grouped by peer, int64 ``[m]``: ``floor(r G / m_p)``.

    The ``m_p`` rows for peer ``p`` are sorted by ``degree`` (ascending, equal ones in the order of the list) and cut
    into ``G`` equal shares; ``r`` is a row's position in that order, and the last share has the highest degrees. Owner
    and receiver hold the same list.
    """
    number, found = len(grade_bits(base)), torch.empty(degree.numel(), dtype=torch.int64)
    for grades, values in zip(torch.split(found, list(counts)), torch.split(degree, list(counts)), strict=True):
        order = values.argsort(stable=True)
        grades[order] = torch.arange(len(values)) * number // max(1, len(values))
    return found


def halo_degree(shard: HaloLists) -> Tensor:
    """In-degree of every halo row in the whole graph, with one self loop; where edges have weights, their sum."""
    return shard.symmetric_degree[shard.num_owned :]


def sent_degree(shard: HaloLists) -> Tensor:
    """In-degree of every row of the send list in the whole graph, counted as in :func:`halo_degree`."""
    return shard.symmetric_degree[shard.send_index]


def grade_counts(shard: HaloLists) -> Tensor:
    """Number of one worker's halo rows in every grade, first for base 1, then for bases 2, 4 and 8; int64 ``[10]``."""
    grades = {base: grades_of(halo_degree(shard), shard.recv_counts, base) for base in BASES}
    return torch.cat([found.bincount(minlength=len(grade_bits(base))) for base, found in grades.items()])


def by_base(counts: Tensor) -> dict[int, tuple[int, ...]]:
    """Split the result of :func:`grade_counts`, of one worker or summed over all workers, by base."""
    split = torch.split(counts, [len(grade_bits(base)) for base in BASES])
    return {base: tuple(part.tolist()) for base, part in zip(BASES, split, strict=True)}


class Graded(Mixed):
    """The mixed codec of rows whose bits rise with their in-degree; each end knows the degrees of its list."""

    def __init__(
        self,
        degree: Tensor,
        counts: tuple[int, ...],
        rate: Rate,
        index: Tensor | None = None,
        rows: int = 0,
        device: torch.device = HOST,
    ) -> None:
        """``degree`` is that of every row of the list; ``index`` gives the list's rows in a matrix of ``rows`` rows."""
        codecs = [codec_of(Rate(bits, code_for(rate.code, bits))) for bits in grade_bits(rate.bits)]
        super().__init__(grades_of(degree, counts, rate.bits), codecs, counts, _name(rate), index, rows, device)


def _name(rate: Rate) -> str:
    return f"{rate.bits}-bit and more {rate.code}"


class HaloCodecs:
    """The codecs of a list of halo messages; where rows have different bits, each end has a codec for its own list."""

    def __init__(self, lists: HaloLists, device: torch.device) -> None:
        self._device = device
        # The shard itself, with features and edges, is not kept alive by its codecs.
        self._counts = lists.send_counts, lists.recv_counts
        self._send_index = lists.send_index
        self._boundary = lists.num_boundary
        self._sums: tuple[Tensor, Tensor] | None = None
        self._degrees: tuple[Tensor, Tensor] | None = None
        if isinstance(lists, CoverLists):
            self._sums = lists.ids[lists.send_index] >= SUM_ID, lists.halo_ids >= SUM_ID
        elif lists.symmetric_degree.numel():
            self._degrees = sent_degree(lists), halo_degree(lists)
        self._made: dict[Rate, tuple[Codec, Codec]] = {}

    def of(self, policy: Policy, rate: Rate, direction: str) -> tuple[Codec, Codec]:
        """The codec that encodes this worker's rows, and the codec that decodes the rows of its peers."""
        finer = rate.sums > rate.bits and self._sums is not None
        if policy.codec is not None or not (rate.graded or finer):
            return alike(policy, rate, direction)
        key = Rate(rate.bits, rate.code, sums=rate.sums if finer else 0)
        if key not in self._made:
            self._made[key] = self._finer(key) if finer else self._by_degree(key)
        owner, receiver = self._made[key]
        return (owner, receiver) if direction == FORWARD else (receiver, owner)

    def _by_degree(self, rate: Rate) -> tuple[Codec, Codec]:
        """The codecs of bits by in-degree."""
        assert self._degrees is not None
        sent, received = zip(self._degrees, self._counts, strict=True)
        own = Graded(*sent, rate, self._send_index, self._boundary, self._device)
        return own, Graded(*received, rate, device=self._device)

    def _finer(self, rate: Rate) -> tuple[Codec, Codec]:
        """The codecs of rows and, in more bits, of partial sums."""
        assert self._sums is not None
        codecs = [codec_of(rate), codec_of(rate.of_sums())]
        sent, received = zip((mask.long() for mask in self._sums), self._counts, strict=True)
        own = Mixed(sent[0], codecs, sent[1], _name(rate), self._send_index, self._boundary, self._device)
        return own, Mixed(received[0], codecs, received[1], _name(rate), device=self._device)
