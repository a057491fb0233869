"""Graded messages: halo nodes of higher in-degree get more bits; both ends know how many without sending it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from halowire.kernels import Csr, code_for
from halowire.partitioning import HaloLists
from halowire.wire.codec import Codec, Source, Uniform, refuse_cut_off
from halowire.wire.placement import sent_over
from halowire.wire.policy import FORWARD, Policy, Rate, codec_of
from halowire.wire.route import inverse_of
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


@dataclass(frozen=True, eq=False)
class Grade:
    """The rows of one list that share a codec.

    Attributes:
        codec: the codec that the rows share.
        places: places of the rows in the list, ascending.
        counts: number of the rows for every peer.
        index: numbers of the rows in the matrix that is encoded.
        targets: the inverse of ``index`` where rows repeat, so that a row is quantised once for all peers of a grade.
        host_index: ``index`` on the host.
    """

    codec: Uniform
    places: Tensor
    counts: tuple[int, ...]
    index: Tensor
    targets: Csr | None
    host_index: Tensor


class Graded(Codec):
    """Codes the list of rows of one end, grouped by peer; the message for a peer holds one grade after another.

    Each end has a codec of its own, made from the same degrees: the owner for its send list, the receiver for its halo.
    """

    def __init__(
        self,
        degree: Tensor,
        counts: tuple[int, ...],
        rate: Rate,
        index: Tensor | None = None,
        rows: int = 0,
        device: torch.device = HOST,
    ) -> None:
        """``degree`` is that of every row of the list; ``index`` gives the list's rows in a matrix of ``rows`` rows.

        Both are on the host. ``device``: where the rows are that are encoded and decoded.
        """
        self._rate = rate
        self._cut: WeakKeyDictionary[Csr, list[Csr]] = WeakKeyDictionary()
        self.grades: list[Grade] = []
        found = grades_of(degree, counts, rate.bits)
        for number, bits in enumerate(grade_bits(rate.bits)):
            chosen = found == number
            places = chosen.nonzero()[:, 0]
            own = places if index is None else index[places]
            each = tuple(int(part.sum()) for part in torch.split(chosen, list(counts)))
            codec = codec_of(Rate(bits, code_for(rate.code, bits)))
            targets = None if index is None else inverse_of(own, rows).to(device)
            there = sent_over(places, device), sent_over(own, device)
            self.grades.append(Grade(codec, there[0], each, there[1], targets, own))

    @property
    def wire_name(self) -> str:
        """The fewest bits and the code, such as ``1-bit and more minmax``."""
        return f"{self._rate.bits}-bit and more {self._rate.code}"

    def sizes(self, counts: Sequence[int], columns: int) -> list[int]:
        """Bytes of every peer's part: the sum over its grades; ``counts`` must be those of the list."""
        return [sum(sizes) for sizes in zip(*self._bytes(columns), strict=True)]

    def encode(self, rows: Tensor, source: Source, out: Tensor) -> None:
        """Pack grade by grade, then put the grades of every peer one after another."""
        sizes = self._bytes(rows.shape[1] if source.columns is None else source.columns.numel())
        parts = []
        for grade, size in zip(self.grades, sizes, strict=True):
            packed = torch.empty(sum(size), dtype=torch.uint8, device=out.device)
            own = Source(source.ids, grade.index, grade.targets, source.columns, source.stream)
            grade.codec.encode(rows, own, packed)
            parts.append(torch.split(packed, size))
        torch.cat([part for peer in zip(*parts, strict=True) for part in peer], out=out)

    def decode(self, data: Tensor, columns: int) -> Tensor:
        """The rows of all grades, in the order of the list."""
        rows = torch.empty(sum(grade.places.numel() for grade in self.grades), columns, device=data.device)
        for grade, packed in self._packed(data, columns):
            rows[grade.places] = grade.codec.decode(packed, columns)
        return rows

    def aggregate(self, matrix: Csr, data: Tensor, columns: int, out: Tensor) -> None:
        """Add up the rows of every grade straight from their bytes, with the grade's own columns of ``matrix``."""
        if data.device.type != "cpu":  # to cut the matrix there, the host would wait
            matrix.matmul(self.decode(data, columns), out=out, accumulate=True)
            return
        if matrix not in self._cut:
            self._cut[matrix] = [matrix.select_columns(grade.places) for grade in self.grades]
        for (grade, packed), part in zip(self._packed(data, columns), self._cut[matrix], strict=True):
            grade.codec.aggregate(part, packed, columns, out)

    def samples(self, count: int) -> list[tuple[Uniform, Tensor]]:
        """About ``count`` rows of the encoded matrix, equally many of each grade, with the grade's codec."""
        share = -(-count // len(self.grades))
        return [(grade.codec, grade.host_index[:share]) for grade in self.grades]

    def _packed(self, data: Tensor, columns: int) -> list[tuple[Grade, Tensor]]:
        """Every grade with the bytes of its rows from all peers."""
        sizes = [size for peer in zip(*self._bytes(columns), strict=True) for size in peer]
        refuse_cut_off(data, sum(sizes), one=True)
        parts = torch.split(data, sizes)
        return [(grade, torch.cat(parts[number :: len(self.grades)])) for number, grade in enumerate(self.grades)]

    def _bytes(self, columns: int) -> list[list[int]]:
        """Bytes of every peer's part, by grade."""
        return [grade.codec.sizes(grade.counts, columns) for grade in self.grades]


class HaloCodecs:
    """The codecs of a shard's halo messages; where rows are graded, each end has a codec for its own list."""

    def __init__(self, shard: HaloLists, device: torch.device) -> None:
        self._device = device
        # The shard itself, with features and edges, is not kept alive by its codecs.
        self._owner = (sent_degree(shard), shard.send_counts)
        self._receiver = (halo_degree(shard), shard.recv_counts)
        self._send_index = shard.send_index
        self._boundary = shard.num_boundary
        self._graded: dict[Rate, tuple[Graded, Graded]] = {}

    def of(self, policy: Policy, rate: Rate, direction: str) -> tuple[Codec, Codec]:
        """The codec that encodes this worker's rows, and the codec that decodes the rows of its peers."""
        if policy.codec is not None or not rate.graded:
            return alike(policy, rate, direction)
        key = Rate(rate.bits, rate.code)
        if key not in self._graded:
            own = Graded(*self._owner, key, self._send_index, self._boundary, self._device)
            self._graded[key] = own, Graded(*self._receiver, key, device=self._device)
        owner, receiver = self._graded[key]
        return (owner, receiver) if direction == FORWARD else (receiver, owner)
