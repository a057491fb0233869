"""The codec of a graded message: up to four groups of rows for every peer, each packed in its own bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from halowire.kernels import Csr, code_for
from halowire.wire.codec import Source, Uniform, codec_of
from halowire.wire.grades import grade_bits, grades_of
from halowire.wire.rate import Rate


@dataclass(frozen=True, eq=False)
class Grade:
    """The rows of one list that share a codec.

    Attributes:
        codec: how they are coded.
        places: their places in the list, ascending.
        counts: how many of them each peer has.
        index: their rows in the matrix that is encoded.
        targets: the inverse of ``index`` where rows repeat, so that a row is quantised once for all peers of a grade.
    """

    codec: Uniform
    places: Tensor
    counts: tuple[int, ...]
    index: Tensor
    targets: Csr | None


class Graded:
    """Codes one end's list of rows, grouped by peer; the message for a peer is its grades one after another.

    Both ends make their own from the same degrees: the owner of the send list, the receiver of the halo list.
    """

    def __init__(
        self,
        degree: Tensor,
        counts: tuple[int, ...],
        rate: Rate,
        index: Tensor | None = None,
        inverse: Callable[[Tensor], Csr] | None = None,
    ) -> None:
        """``degree`` of every row of the list; ``index`` and ``inverse`` where its rows are rows of a matrix."""
        self._cut: WeakKeyDictionary[Csr, list[Csr]] = WeakKeyDictionary()
        self.grades: list[Grade] = []
        found = grades_of(degree, counts, rate.bits)
        for number, bits in enumerate(grade_bits(rate.bits)):
            chosen = found == number
            places = chosen.nonzero()[:, 0]
            rows = places if index is None else index[places]
            each = tuple(int(part.sum()) for part in torch.split(chosen, list(counts)))
            codec = codec_of(Rate(bits, code_for(rate.code, bits)))
            self.grades.append(Grade(codec, places, each, rows, None if inverse is None else inverse(rows)))

    def sizes(self, counts: Sequence[int], columns: int) -> list[int]:
        """The row formula summed over the grades of every peer; ``counts`` are those of the list."""
        widths = [grade.codec.row_bytes(columns) for grade in self.grades]
        peers = zip(*(grade.counts for grade in self.grades), strict=True)
        return [sum(count * width for count, width in zip(peer, widths, strict=True)) for peer in peers]

    def encode(self, rows: Tensor, source: Source, out: Tensor) -> None:
        """Pack grade by grade, then move every peer's piece to its place."""
        columns = rows.shape[1] if source.columns is None else source.columns.numel()
        for grade, slices in zip(self.grades, self._slices(columns), strict=True):
            size = grade.places.numel() * grade.codec.row_bytes(columns)
            packed = torch.empty(size, dtype=torch.uint8, device=out.device)
            own = Source(source.ids, grade.index, grade.targets, source.columns, source.stream)
            grade.codec.encode(rows, own, packed)
            start = 0
            for piece in slices:
                stop = start + piece.stop - piece.start
                out[piece] = packed[start:stop]
                start = stop

    def decode(self, data: Tensor, columns: int) -> Tensor:
        """The rows in the order of the list."""
        rows = torch.empty(sum(grade.places.numel() for grade in self.grades), columns, device=data.device)
        for grade, packed in self._packed(data, columns):
            rows[grade.places] = grade.codec.decode(packed, columns)
        return rows

    def aggregate(self, matrix: Csr, data: Tensor, columns: int, out: Tensor) -> None:
        """Every grade with its own columns of ``matrix``, straight from its bytes."""
        if matrix not in self._cut:
            self._cut[matrix] = [matrix.select_columns(grade.places) for grade in self.grades]
        for (grade, packed), part in zip(self._packed(data, columns), self._cut[matrix], strict=True):
            grade.codec.aggregate(part, packed, columns, out)

    def samples(self, count: int) -> list[tuple[Uniform, Tensor]]:
        """About ``count`` rows of the encoded matrix, equally many of each grade, with their codec."""
        share = -(-count // len(self.grades))
        return [(grade.codec, grade.index[:share]) for grade in self.grades]

    def _packed(self, data: Tensor, columns: int) -> list[tuple[Grade, Tensor]]:
        """Every grade with its bytes of all peers."""
        slices = self._slices(columns)
        return [(g, torch.cat([data[piece] for piece in part])) for g, part in zip(self.grades, slices, strict=True)]

    def _slices(self, columns: int) -> list[list[slice]]:
        """Where the bytes of every grade and peer lie in the message."""
        slices: list[list[slice]] = [[] for _ in self.grades]
        start = 0
        for peer in range(len(self.grades[0].counts)):
            for grade, found in zip(self.grades, slices, strict=True):
                stop = start + grade.counts[peer] * grade.codec.row_bytes(columns)
                found.append(slice(start, stop))
                start = stop
        return slices
