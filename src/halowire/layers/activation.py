"""The activation between two graph layers: LayerNorm, ReLU and dropout, in one pass forward and one backward."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from halowire.kernels import activate, activate_backward
from halowire.layers.dense import gradient_of
from halowire.layers.rows import Rows


@dataclass(frozen=True, eq=False)
class Activation:
    """``v = dropout(relu(layer_norm(u)))`` for rows ``u`` ``[m, k]``.

    The dropout mask depends on (seed, epoch, ``layer``, original node id, column) alone: any worker can draw it for
    any node, and a run is the same whatever the number of workers. Backward draws the mask again.

    Attributes:
        gamma, beta: scale and shift of LayerNorm, ``[k]``; None: the rows are not normalised.
        p: the share of the values that are dropped.
        layer: the number from which the dropout mask is drawn.
        relu: whether negative values become zero.
    """

    gamma: nn.Parameter | None
    beta: nn.Parameter | None
    p: float
    layer: int
    relu: bool = True

    @property
    def parameters(self) -> list[nn.Parameter]:
        """Gamma and beta, where there are any."""
        return [parameter for parameter in (self.gamma, self.beta) if parameter is not None]

    def stats_for(self, u: Tensor) -> Tensor | None:
        """Room for mean and reciprocal deviation of the rows ``u``, ``[m, 2]``; None without LayerNorm."""
        return None if self.gamma is None else u.new_empty(u.shape[0], 2)

    def forward(self, u: Tensor, rows: Rows, out: Tensor, stats: Tensor | None) -> None:
        """Write ``v`` to ``out`` and the statistics of the rows to ``stats``."""
        found = activate(u, self.gamma, self.beta, self.relu, rows.drop(self.p, self.layer), out=out)[1]
        if stats is not None and found is not None:
            stats.copy_(found)

    def undropped(self, u: Tensor, out: Tensor) -> None:
        """Write ``relu(layer_norm(u))`` to ``out``."""
        activate(u, self.gamma, self.beta, self.relu, None, out=out)

    def backward(self, grad: Tensor, u: Tensor, stats: Tensor | None, rows: Rows) -> None:
        """Turn ``grad``, the gradient of ``v``, into the gradient of ``u``; add to the gradients of gamma and beta."""
        drop = rows.drop(self.p, self.layer)
        _, gamma_grad, beta_grad = activate_backward(grad, u, stats, self.gamma, self.beta, self.relu, drop, out=grad)
        for parameter, found in ((self.gamma, gamma_grad), (self.beta, beta_grad)):
            if parameter is not None and found is not None:
                gradient_of(parameter).add_(found)
