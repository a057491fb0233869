"""What follows a graph layer: LayerNorm, ReLU and dropout in one pass each way, on any range of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from halowire.kernels import Drop, activate, activate_backward


@dataclass(frozen=True, eq=False)
class Activation:
    """``h = dropout(relu(layer_norm(x)))`` for ``x`` ``[n, k]``; no normalisation where ``gamma`` is None.

    The dropout mask depends on (seed, epoch, layer, original node id, column) alone: any worker can draw it for any
    node, and a run is the same whatever the number of workers. Backward draws both masks again; from forward it needs
    ``x`` and the two numbers per row that :meth:`forward` returns.
    """

    gamma: Tensor | None
    beta: Tensor | None
    drop: Drop | None

    def forward(self, x: Tensor, h: Tensor, rows: slice) -> Tensor | None:
        """Write ``h[rows]``; mean and reciprocal deviation of these rows, ``[rows, 2]``, where there is a norm."""
        return activate(x[rows], self.gamma, self.beta, True, self._drop(rows), out=h[rows])[1]

    def undropped(self, x: Tensor, out: Tensor) -> None:
        """Write ``relu(layer_norm(x))`` of some rows."""
        activate(x, self.gamma, self.beta, True, None, out=out)

    def backward(
        self, grad: Tensor, x: Tensor, stats: Tensor | None, out: Tensor, rows: slice
    ) -> tuple[Tensor | None, Tensor | None]:
        """Write ``x_grad`` to ``out[rows]``, which may be ``grad`` itself; these rows' parts of gamma's and beta's."""
        drop = self._drop(rows)
        _, gamma_grad, beta_grad = activate_backward(
            grad[rows], x[rows], stats, self.gamma, self.beta, True, drop, out=out[rows]
        )
        return gamma_grad, beta_grad

    def _drop(self, rows: slice) -> Drop | None:
        return None if self.drop is None else replace(self.drop, ids=self.drop.ids[rows])
