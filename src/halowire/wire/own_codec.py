"""A codec of one's own: three methods on rows; gathering, columns, peers and aggregation are done here."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import Csr, keys_of, uniform_bits
from halowire.wire.codec import Source, Uniform


@dataclass(frozen=True, eq=False)
class Draws:
    """The random numbers of ``m`` rows of one message: functions of (seed, epoch, layer, direction, node, column).

    They are the same in every run and on any number of workers; numbers of torch's own generator are not.

    Example:
        >>> kept = draws.uniform(rows.shape[1]) < share  # inside encode_rows
    """

    stream: int
    ids: Tensor

    def uniform(self, columns: int) -> Tensor:
        """float32 ``[m, columns]`` in ``0 <= u < 1``."""
        bits = uniform_bits(keys_of(self.stream, self.ids), columns)
        # 24 bits: the most that float32 holds without rounding up to 1.
        return (bits >> 8).float() * 2.0**-24


class RowCodec(Uniform):
    """A codec that a user writes: the bytes of a row, rows to bytes, and bytes to rows.

    A row's bytes may depend on its values, its columns and its draws, and on nothing else: not on the rows beside it,
    not on the worker, not on earlier messages. `halowire.distribute` and `halowire.fit` take one as ``codec``, try it
    on some rows, and refuse it where that does not hold.

    Example:
        >>> class Half(halowire.RowCodec):
        ...     def row_bytes(self, columns):
        ...         return 2 * columns
        ...     def encode_rows(self, rows, draws):
        ...         return rows.bfloat16().view(torch.uint8)
        ...     def decode_rows(self, data, columns):
        ...         return data.view(torch.bfloat16).float()
        >>> halowire.fit(model, data, workers=2, codec=Half())
    """

    @abstractmethod
    def row_bytes(self, columns: int) -> int:
        """Bytes of one row of ``columns`` values on the wire, at least 1."""

    @abstractmethod
    def encode_rows(self, rows: Tensor, draws: Draws) -> Tensor:
        """float32 ``[m, k]`` to uint8 ``[m, row_bytes(k)]``."""

    @abstractmethod
    def decode_rows(self, data: Tensor, columns: int) -> Tensor:
        """uint8 ``[m, row_bytes(columns)]`` to float32 ``[m, columns]``."""

    def encode(self, rows: Tensor, source: Source, out: Tensor) -> None:
        """Encode every row that travels once, and write it to all its places in the message."""
        rows = rows if source.columns is None else rows.index_select(1, source.columns)
        if source.index is None:
            self.write(rows, Draws(source.stream, source.ids), None, out)
        else:
            chosen, places = torch.unique(source.index, return_inverse=True)
            self.write(rows[chosen], Draws(source.stream, source.ids[chosen]), places, out)

    def decode(self, data: Tensor, columns: int) -> Tensor:
        """The rows in ``data``."""
        width = self.row_bytes(columns)
        rows = self.decode_rows(data.view(-1, width), columns)
        self._refuse_other(rows, "decode_rows", torch.float32, data.numel() // width, columns)
        return rows

    def aggregate(self, matrix: Csr, data: Tensor, columns: int, out: Tensor) -> None:
        """Decode, then multiply."""
        matrix.matmul(self.decode(data, columns).contiguous(), out=out, accumulate=True)

    def write(self, rows: Tensor, draws: Draws, places: Tensor | None, out: Tensor) -> None:
        """Encode ``rows`` ``[m, k]`` and write them to ``out``: row ``places[i]`` at place ``i``, or all in turn."""
        width = self.row_bytes(rows.shape[1])
        packed = self.encode_rows(rows, draws)
        self._refuse_other(packed, "encode_rows", torch.uint8, rows.shape[0], width)
        out.view(-1, width).copy_(packed if places is None else packed[places])

    def _refuse_other(self, found: Tensor, method: str, kind: torch.dtype, rows: int, columns: int) -> None:
        if not isinstance(found, Tensor):
            raise InputError(
                f"{method} of codec {type(self).__name__} gives {type(found).__name__}, expected {kind} "
                f"[{rows}, {columns}]"
            )
        if found.dtype != kind or found.shape != (rows, columns):
            raise InputError(
                f"{method} of codec {type(self).__name__} gives {found.dtype} {list(found.shape)}, expected {kind} "
                f"[{rows}, {columns}]"
            )
