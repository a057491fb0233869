"""Returning: halo gradients on their way back to the rows' owner, finished by the block that launched the rows."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from halowire.wire import Flight, HaloExchange


@dataclass(frozen=True, eq=False)
class Returning:
    """A backward exchange under way, and what was left to it of the backward of the layer that launched it.

    Where ``x W^T`` travelled, the boundary rows of its gradient are complete only now, and with them
    ``x_grad += z_grad W`` and ``weight_grad += z_grad^T x``. ``z_grad`` is ``[n, out]``, ``x`` the layer's input.
    """

    flight: Flight | None
    z_grad: Tensor | None = None
    x: Tensor | None = None
    weight: Tensor | None = None

    def land(self, exchange: HaloExchange, grad: Tensor) -> Tensor | None:
        """Wait, and add what returned to ``grad`` ``[n, in]`` in place; the boundary's part of the weight gradient."""
        if self.z_grad is None:
            exchange.finish_back(self.flight, grad)
            return None
        assert self.x is not None and self.weight is not None
        exchange.finish_back(self.flight, self.z_grad)
        boundary = exchange.num_boundary
        if not boundary:
            return None
        z_grad = self.z_grad[:boundary]
        grad[:boundary].addmm_(z_grad, self.weight)
        return z_grad.t() @ self.x[:boundary]
