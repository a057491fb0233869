"""Rows in work: which rows of a part, in which pass, with the activation that every block begins with."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from halowire.kernels import Drop, activate, activate_backward
from halowire.schedules.inputs import Inputs


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows ``at`` of a part in one pass; ``ids`` are their original ids, int64 ``[m]``."""

    at: slice
    ids: Tensor
    inputs: Inputs | None
    seed: int = 0
    epoch: int = 0
    training: bool = False

    @property
    def count(self) -> int:
        """How many rows, ``m``."""
        return self.ids.numel()

    def drop(self, p: float, layer: int) -> Drop | None:
        """Dropout of these rows, or None where nothing is dropped."""
        return Drop(p, self.seed, self.epoch, layer, self.ids) if self.training and p > 0 else None


@dataclass(frozen=True, eq=False)
class Activate:
    """``v = dropout(relu(layer_norm(u)))``, the norm only where there is a ``gamma``; ``layer`` keys the dropout."""

    gamma: nn.Parameter | None
    beta: nn.Parameter | None
    p: float
    layer: int

    def forward(self, u: Tensor, rows: Rows, out: Tensor, dropped: bool = True) -> Tensor | None:
        """Write ``v`` to ``out``; mean and reciprocal deviation of every row, where there is a norm."""
        drop = rows.drop(self.p, self.layer) if dropped else None
        return activate(u, self.gamma, self.beta, True, drop, out=out)[1]

    def backward(self, grad: Tensor, u: Tensor, stats: Tensor | None, rows: Rows) -> None:
        """Turn ``grad``, of ``v``, into that of ``u`` in place; add to the gradients of gamma and beta."""
        drop = rows.drop(self.p, self.layer)
        _, gamma_grad, beta_grad = activate_backward(grad, u, stats, self.gamma, self.beta, True, drop, out=grad)
        for parameter, found in ((self.gamma, gamma_grad), (self.beta, beta_grad)):
            if parameter is not None and found is not None:
                gradient_of(parameter).add_(found)


def gradient_of(parameter: nn.Parameter) -> Tensor:
    """The gradient of ``parameter``, which backward adds to."""
    assert parameter.grad is not None, "gradients must exist before backward adds to them"
    return parameter.grad
