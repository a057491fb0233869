"""Codecs: rows to bytes and back, with their exact size on the wire."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.errors import MessageError
from halowire.kernels import Csr, Packing, aggregate_packed, pack_rows, take_rows, unpack_rows


@dataclass(frozen=True, eq=False)
class Source:
    """The rows of one message: where in the message each row goes, and what its random numbers depend on.

    Attributes:
        ids: original id of every row of the matrix that is encoded, int64 ``[n]``.
        index: row of the matrix at every place in the message, int64 ``[m]``; None: row ``i`` at place ``i``.
        targets: the inverse of ``index`` as a matrix ``[n, m]``, the places of every row, so that a row is quantised
            only once; where it is given, ``index`` is not read.
        columns: the columns that travel, int64; None for all.
        stream: key of this message's random numbers.
    """

    ids: Tensor
    index: Tensor | None
    targets: Csr | None
    columns: Tensor | None
    stream: int


class Codec(ABC):
    """Turns float32 rows into bytes and back."""

    @property
    @abstractmethod
    def wire_name(self) -> str:
        """The codec's name, one of `wire.header.CODECS`: both ends of a message compare it."""

    @abstractmethod
    def sizes(self, counts: Sequence[int], columns: int) -> list[int]:
        """Bytes of every peer's part of a message, for ``counts`` rows of ``columns`` values each."""

    @abstractmethod
    def encode(self, rows: Tensor, source: Source, out: Tensor) -> None:
        """Write the message of ``source`` into ``out``, uint8 ``[sum of sizes]``."""

    @abstractmethod
    def decode(self, data: Tensor, columns: int) -> Tensor:
        """The rows in ``data``, float32 ``[m, columns]``, which may share the memory of ``data``."""

    @abstractmethod
    def aggregate(self, matrix: Csr, data: Tensor, columns: int, out: Tensor) -> None:
        """``out += matrix @ decode(data)``, without writing the decoded rows to memory where that is possible."""

    @abstractmethod
    def samples(self, count: int) -> list[tuple[Uniform, Tensor]]:
        """About ``count`` rows of the encoded matrix, each group with its codec, to measure the codec's error on.

        Their numbers are on the host, where those of two epochs are compared.
        """


class Uniform(Codec):
    """A codec that gives every row the same bytes."""

    @abstractmethod
    def row_bytes(self, columns: int) -> int:
        """Bytes of one row of ``columns`` values on the wire."""

    def sizes(self, counts: Sequence[int], columns: int) -> list[int]:
        """Bytes of every peer's part: its rows times the bytes of a row."""
        return [count * self.row_bytes(columns) for count in counts]

    def samples(self, count: int) -> list[tuple[Uniform, Tensor]]:
        """The first ``count`` rows, with this codec."""
        return [(self, torch.arange(count))]


def refuse_cut_off(data: Tensor, size: int, one: bool = False) -> None:
    """Refuse ``data`` that does not consist of whole pieces of ``size`` bytes, or not of ``one`` of them."""
    if data.numel() != size if one else data.numel() % size if size else data.numel():
        raise MessageError(f"{data.numel()} bytes came, expected whole rows of {size} bytes; the message was cut off")


class Full(Uniform):
    """Sends float32 values unchanged: ``4 k`` bytes for a row of ``k`` columns, decoded without a copy."""

    @property
    def wire_name(self) -> str:
        """``float32``."""
        return "float32"

    def row_bytes(self, columns: int) -> int:
        """``4 k`` bytes for ``k`` columns."""
        return 4 * columns

    def encode(self, rows: Tensor, source: Source, out: Tensor) -> None:
        """Gather the rows straight into the send buffer."""
        rows = rows if source.columns is None else rows.index_select(1, source.columns)
        target = out.view(torch.float32).view(-1, rows.shape[1])
        if source.index is None:
            target.copy_(rows)
        else:
            take_rows(rows, source.index, out=target)

    def decode(self, data: Tensor, columns: int) -> Tensor:
        """The received bytes, seen as float32 rows."""
        refuse_cut_off(data, self.row_bytes(columns))
        return data.view(torch.float32).view(-1, columns)

    def aggregate(self, matrix: Csr, data: Tensor, columns: int, out: Tensor) -> None:
        """Multiply the received rows in place, without a copy."""
        matrix.matmul(self.decode(data, columns), out=out, accumulate=True)


@dataclass(frozen=True)
class Packed(Uniform):
    """Packs a row as bf16 (``2 k`` bytes), or in ``b`` bits per value and two bf16 numbers (``ceil(b k / 8) + 4``)."""

    packing: Packing

    @property
    def wire_name(self) -> str:
        """``bf16``, or the bits and the code, such as ``4-bit levels``."""
        return "bf16" if self.packing.bits == 16 else f"{self.packing.bits}-bit {self.packing.code}"

    def row_bytes(self, columns: int) -> int:
        """Bytes of a row, which the packing defines."""
        return self.packing.row_bytes(columns)

    def encode(self, rows: Tensor, source: Source, out: Tensor) -> None:
        """Quantise and pack every row once, and write it to all its places in the message."""
        targets = None if source.targets is None else (source.targets.indptr, source.targets.indices)
        columns = None if source.columns is None else source.columns.int()
        ids = source.ids
        if source.index is not None and source.targets is None:
            rows = rows[source.index]
            ids = ids[source.index]
        pack_rows(rows, self.packing, source.stream, ids, out, columns, targets)

    def decode(self, data: Tensor, columns: int) -> Tensor:
        """The reconstructed rows, which are the same on every machine."""
        refuse_cut_off(data, self.row_bytes(columns))
        return unpack_rows(data, self.packing, columns)

    def aggregate(self, matrix: Csr, data: Tensor, columns: int, out: Tensor) -> None:
        """Decode the rows in registers, and add them straight to the sums."""
        aggregate_packed(matrix.indptr, matrix.indices, matrix.weight, data, self.packing, columns, out, True)
