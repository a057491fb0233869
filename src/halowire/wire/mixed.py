"""Mixed messages: rows of one list are coded in several ways; both ends know which row in which, without sending it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from halowire.kernels import Csr, sent_over
from halowire.wire.codec import Codec, Source, Uniform, refuse_cut_off
from halowire.wire.route import inverse_of
from halowire.wire.terms import HOST


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


class Mixed(Codec):
    """Codes the list of rows of one end, grouped by peer; the message for a peer holds one grade after another.

    Each end has a codec of its own, made from the same grades: the sender for its list, the receiver for its own.
    """

    def __init__(
        self,
        grades: Tensor,
        codecs: Sequence[Uniform],
        counts: tuple[int, ...],
        name: str,
        index: Tensor | None = None,
        rows: int = 0,
        device: torch.device = HOST,
    ) -> None:
        """``grades`` ``[m]`` gives for every row of the list its place in ``codecs``; ``name`` is for `wire_name`.

        ``index`` gives the list's rows in a matrix of ``rows`` rows. Both are on the host. ``device``: where the rows
        are that are encoded and decoded.
        """
        self._name = name
        self._cut: WeakKeyDictionary[Csr, list[Csr]] = WeakKeyDictionary()
        self.grades: list[Grade] = []
        for number, codec in enumerate(codecs):
            chosen = grades == number
            places = chosen.nonzero()[:, 0]
            own = places if index is None else index[places]
            each = tuple(int(part.sum()) for part in torch.split(chosen, list(counts)))
            targets = None if index is None else inverse_of(own, rows).to(device)
            there = sent_over(places, device), sent_over(own, device)
            self.grades.append(Grade(codec, there[0], each, there[1], targets, own))

    @property
    def wire_name(self) -> str:
        """The fewest bits and the code, such as ``1-bit and more minmax``."""
        return self._name

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
