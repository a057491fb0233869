"""Rows in work: which rows of a part are computed in a pass, and what forward keeps of them for backward."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from halowire.kernels import Drop


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows ``at`` of a part in one pass of a model.

    Attributes:
        at: the range of the part's rows.
        part_ids: the original id of every row of the part, int64 ``[n]``: random numbers depend on it, not on places.
        seed, epoch: two other numbers on which the random numbers of the pass depend.
        training: whether the pass drops values and keeps matrices for backward.
    """

    at: slice
    part_ids: Tensor
    seed: int = 0
    epoch: int = 0
    training: bool = False

    @staticmethod
    def whole(part_ids: Tensor, seed: int = 0, epoch: int = 0, training: bool = False) -> Rows:
        """All rows of a part."""
        return Rows(slice(0, part_ids.numel()), part_ids, seed, epoch, training)

    def range(self, start: int, stop: int) -> Rows:
        """The rows ``start`` to ``stop`` of the same part in the same pass."""
        return replace(self, at=slice(start, stop))

    @property
    def ids(self) -> Tensor:
        """The original ids of these rows, int64 ``[m]``."""
        return self.part_ids[self.at]

    @property
    def count(self) -> int:
        """The number of these rows, ``m``."""
        return int(self.at.stop - self.at.start)

    @property
    def device(self) -> torch.device:
        """The device on which the rows are computed."""
        return self.part_ids.device

    def drop(self, p: float, layer: int) -> Drop | None:
        """The dropout of these rows with probability ``p``, or None where nothing is dropped."""
        return Drop(p, self.seed, self.epoch, layer, self.ids) if self.training and p > 0 else None


@dataclass(eq=False)
class Kept:
    """What the forward of a layer keeps for its backward, for ``m`` rows.

    Attributes:
        u: the rows that enter the layer, ``[m, in]``.
        stats: mean and reciprocal deviation of every row, ``[m, 2]``, where the activation normalises.
        v: the activated rows, ``[m, in]``, where the layer needs them again.
        g: the aggregate, ``[m, width]``.
    """

    u: Tensor | None = None
    stats: Tensor | None = None
    v: Tensor | None = None
    g: Tensor | None = None

    def part(self, at: slice) -> Kept:
        """What is kept of the rows ``at`` alone, in the same memory."""
        return Kept(*(None if matrix is None else matrix[at] for matrix in (self.u, self.stats, self.v, self.g)))
