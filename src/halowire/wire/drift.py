"""Drift: how hidden rows change from one epoch to the next, estimated so that late halo rows can be corrected.

A late halo row is the owner's row of the previous epoch. Since then the weights took one step, which moved all rows of
the layer in nearly the same way. A worker sees that movement on its own rows: ``X`` ``[m, k]`` in the previous epoch,
``Y`` ``[m, k]`` in this one, both before dropout. With their means ``x`` and ``y`` and ``Xc = X - x``, ``Yc = Y - y``,
the correction ``affine`` is the ridge regression of the change,

    r  ->  (r - x) M + y,        M = I + (Xc' Xc + e I)^-1 Xc' (Yc - Xc),        e = 0.001 mean(diag(Xc' Xc)),

and ``mean`` is ``r -> r + y - x``. Nothing travels for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.wire.memory import Memory
from halowire.wire.policy import AFFINE, NONE

RIDGE = 1e-3
"""``e`` as a share of the mean diagonal element; more of it keeps ``M`` nearer to the identity."""
FITTED_ROWS = 4096
"""The most rows on which a change is estimated; the time of the estimate grows with them, its error hardly falls."""
TINY = 1e-30
"""Added to the diagonal, so that rows that are all zero have the identity as their change."""


@dataclass(frozen=True, eq=False)
class Movement:
    """The movement ``r -> (r - before) M + after`` of rows ``[m, k]``; without ``matrix``, ``M`` is the identity."""

    before: Tensor
    after: Tensor
    matrix: Tensor | None

    @staticmethod
    def between(then: Tensor, now: Tensor, affine: bool) -> Movement:
        """The movement that turned the rows ``then`` ``[m, k]`` into ``now`` ``[m, k]``."""
        before, after = then.mean(0), now.mean(0)
        if not affine:
            return Movement(before, after, None)
        x = then - before
        moved = (now - after) - x
        # The sums are small matrices, [k, k]: in float64 the solution does not depend on how they are rounded.
        squares = (x.t() @ x).double()
        diagonal = squares.diagonal()
        diagonal += RIDGE * diagonal.mean() + TINY
        # The variant that does not check lets a device go on without the host; the ridge makes it positive definite.
        factor, _ = torch.linalg.cholesky_ex(squares)
        matrix = torch.cholesky_solve((x.t() @ moved).double(), factor).float()
        matrix.diagonal().add_(1)
        return Movement(before, after, matrix)

    def of(self, rows: Tensor) -> Tensor:
        """``rows`` ``[m, k]`` of the previous epoch, as they are expected to be in this one."""
        if self.matrix is None:
            return rows + (self.after - self.before)
        return torch.addmm(self.after - self.before @ self.matrix, rows, self.matrix)


class Drift:
    """Estimates the change of every layer's rows in every epoch; the rows of the previous epoch are checkpointed."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._movements: dict[int, tuple[int, Movement]] = {}

    def observe(self, layer: int, rows: Tensor, epoch: int, kind: str) -> None:
        """Estimate the change of ``layer`` from its own ``rows`` ``[n, k]`` of ``epoch``, and keep them for the next.

        Without rows of the epoch before, there is no estimate.
        """
        if kind == NONE or not len(rows):
            return
        name = f"drift.{layer}"
        sample = rows[:: -(-len(rows) // FITTED_ROWS)]
        kept = self._memory.matrix(name, *sample.shape)
        if self._memory.applied.get(name) == epoch - 1:
            self._movements[layer] = epoch, Movement.between(kept, sample, kind == AFFINE)
        kept.copy_(sample)
        self._memory.applied[name] = epoch

    def correct(self, layer: int, rows: Tensor, epoch: int) -> Tensor:
        """``rows`` ``[h, k]`` of the epoch before ``epoch``, corrected where a change is known."""
        known, movement = self._movements.get(layer, (None, None))
        return rows if movement is None or known != epoch else movement.of(rows)
