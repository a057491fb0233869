"""The terms of rows in a pipeline: how they travel in one epoch and direction, derived by both ends alone."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from halowire.kernels import stream_key
from halowire.wire import FORWARD, Full, Policy, codec_of
from halowire.wire.codec import Uniform
from halowire.wire.rate import EXACT

MEASURE_EVERY, MEASURED_ROWS = 10, 256
"""The error of a code is measured in every so many epochs, on so many rows of a message."""


@dataclass(frozen=True, eq=False)
class RowTerms:
    """Codec and columns of the rows, the factor on arrival, the key of their random numbers; ``delta``: changes."""

    codec: Uniform
    columns: Tensor | None
    sent_columns: int
    factor: float
    stream: int
    delta: bool

    @staticmethod
    def exact(width: int) -> RowTerms:
        """float32, all columns."""
        return RowTerms(codec_of(EXACT), None, width, 1.0, 0, False)

    @staticmethod
    def agree(
        policy: Policy, epoch: int, layer: int, direction: str, width: int, *, key: int, stream: int, delta: bool
    ) -> RowTerms:
        """Those of ``policy``; ``key`` draws the columns, which backward shares with forward, ``stream`` the bits."""
        forward = policy.rates(epoch, layer, FORWARD)
        rate = forward if direction == FORWARD else policy.rates(epoch, layer, direction)
        columns = policy.columns(epoch, layer, width, key)
        delta = delta and policy.decay is not None and direction == FORWARD
        factor = width / columns.numel() if columns is not None and policy.rescale and not delta else 1.0
        count = width if columns is None else columns.numel()
        bits = stream_key(policy.seed, epoch, layer, stream)
        return RowTerms(codec_of(rate), columns, count, factor, bits, delta)

    @property
    def plain(self) -> bool:
        """Whether the rows travel as they lie in memory."""
        return isinstance(self.codec, Full) and self.columns is None and not self.delta

    @property
    def row_bytes(self) -> int:
        """Bytes of a row on the wire."""
        return self.codec.row_bytes(self.sent_columns)


def relative_error(rows: Tensor, seen: Tensor) -> float | None:
    """``|seen - row|^2 / |row|^2`` of all ``rows`` together; None where they are zero."""
    norm = float(rows.square().sum())
    return float((seen - rows).square().sum()) / norm if norm else None
