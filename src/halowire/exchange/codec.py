"""Codecs: rows to bytes and back, with their exact size on the wire."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from halowire.kernels.rows import take_rows

FLOAT_BYTES = 4


class Codec(Protocol):
    """Turns float32 rows into bytes and back."""

    def row_bytes(self, columns: int) -> int:
        """Bytes of one row of ``columns`` values on the wire."""

    def encode(self, rows: Tensor, index: Tensor | None, out: Tensor) -> None:
        """Write ``rows[index]`` (all rows if ``index`` is None) into ``out``, uint8 ``[num_rows * row_bytes]``."""

    def decode(self, data: Tensor, columns: int) -> Tensor:
        """The rows in ``data``, float32 ``[num_rows, columns]``; may share its memory."""


class Full:
    """float32 as it is: ``4 k`` bytes for a row of ``k`` columns, decoded without a copy."""

    def row_bytes(self, columns: int) -> int:
        """``4 k``."""
        return FLOAT_BYTES * columns

    def encode(self, rows: Tensor, index: Tensor | None, out: Tensor) -> None:
        """Gather straight into the send buffer."""
        target = out.view(torch.float32).view(-1, rows.shape[1])
        if index is None:
            target.copy_(rows)
        else:
            take_rows(rows, index, out=target)

    def decode(self, data: Tensor, columns: int) -> Tensor:
        """A view of the received bytes."""
        return data.view(torch.float32).view(-1, columns)
