"""Aggregation inputs of all rows: current where a chunk has passed in this epoch, historical elsewhere.

The buffer of a block is read whole by every chunk. At the start of an epoch it holds the snapshot, taken at the end of
the last epoch ``t`` with ``(t + 1) mod period == 0`` (zeros before the first), and chunk after chunk is overwritten by
this epoch's rows. With a period of 1 that is what the epoch before left.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from halowire.kernels import empty


class History:
    """Buffers ``[rows, width]``, one per block, with their snapshots where the period is longer than one epoch."""

    def __init__(self, rows: int, widths: Sequence[int], period: int) -> None:
        self._period = period
        self.now = [zeros(rows, width) for width in widths]
        self._then = [zeros(rows, width) for width in widths] if period > 1 else []

    def begin(self) -> None:
        """Back to the snapshot."""
        for now, then in zip(self.now, self._then, strict=False):
            now.copy_(then)

    def end(self, epoch: int) -> None:
        """Take a snapshot where one is due."""
        if (epoch + 1) % self._period == 0:
            for now, then in zip(self.now, self._then, strict=False):
                then.copy_(now)

    @property
    def matrices(self) -> list[Tensor]:
        """What the next epoch depends on."""
        return self._then if self._period > 1 else self.now


def zeros(rows: int, width: int) -> Tensor:
    """float32 zeros whose rows begin on cache lines."""
    return empty(rows, width).zero_()
