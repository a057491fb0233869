"""The layer of GCN, GraphSAGE and ResGCN+, which is linear in the aggregate."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from halowire.layers.activation import Activation
from halowire.layers.dense import affine, empty_rows, gradient_of, product
from halowire.layers.layer import Layer, Work
from halowire.layers.rows import Kept


class Convolution(Layer):
    """``u' = scale (A v W^T + v W_self^T + b) + skip u``.

    Rows are multiplied by ``W`` before the aggregation where that narrows them: ``A (v W^T)`` instead of ``(A v) W^T``;
    if not ``narrow``, they never are.
    """

    def __init__(
        self,
        number: int,
        activation: Activation,
        weight: nn.Parameter,
        weight_self: nn.Parameter | None,
        bias: nn.Parameter | None,
        scale: float = 1.0,
        skip: float = 0.0,
        narrow: bool = True,
    ) -> None:
        """``weight`` and ``weight_self`` are ``[out, in]``, ``bias`` is ``[out]``."""
        out, into = weight.shape
        narrows = narrow and out < into
        super().__init__(number, activation, out if narrows else into, out, weight if narrows else None)
        self.needs_v = weight_self is not None
        self.skip = skip
        self._weight = weight
        self._self = weight_self
        self._bias = bias
        self._scale = scale

    @property
    def finish_parameters(self) -> list[nn.Parameter]:
        """All weights and the bias, except a weight that was applied before the aggregation."""
        last = None if self.multiplies else self._weight
        return [parameter for parameter in (last, self._self, self._bias) if parameter is not None]

    def finish_own(self, kept: Kept, out: Tensor) -> None:
        """``v W_self^T + b``."""
        if self._self is not None:
            assert kept.v is not None
            affine(kept.v, self._self.t(), self._bias, out)

    def finish(self, kept: Kept, out: Tensor) -> None:
        """Add ``g W^T``, or ``g`` where ``W`` was applied before, to the result of :meth:`finish_own`; scale, skip."""
        assert kept.g is not None
        if self._self is not None:
            out.add_(kept.g) if self.multiplies else out.addmm_(kept.g, self._weight.t())
        elif not self.multiplies:
            affine(kept.g, self._weight.t(), self._bias, out)
        elif self._bias is None:
            out.copy_(kept.g)
        else:
            torch.add(kept.g, self._bias, out=out)
        if self._scale != 1:
            out.mul_(self._scale)
        if self.skip:
            assert kept.u is not None
            out.add_(kept.u, alpha=self.skip)

    def finish_back(self, grad: Tensor, g_grad: Tensor) -> None:
        """``g_grad = scale grad W``, or ``scale grad`` where ``W`` was applied before the aggregation."""
        if not self.multiplies:
            torch.mm(grad, self._weight, out=g_grad)
        else:
            g_grad.copy_(grad)
        if self._scale != 1:
            g_grad.mul_(self._scale)

    def direct_back(self, grad: Tensor) -> Tensor | None:
        """``scale grad W_self``."""
        if self._self is None:
            return None
        found = product(grad, self._self)
        return found.mul_(self._scale) if self._scale != 1 else found

    def finish_weights(self, kept: Kept, grad: Tensor, g_grad: Tensor, initial_grad: Tensor | None) -> None:
        """Add ``r^T g``, ``r^T v``, ``sum(r)`` to the gradients of ``W``, ``W_self``, ``b``; ``r = scale grad``."""
        if self._scale != 1:
            grad = torch.mul(grad, self._scale, out=empty_rows(grad, *grad.shape))
        if self._bias is not None:
            gradient_of(self._bias).add_(grad.sum(0))
        if not self.multiplies:
            assert kept.g is not None
            gradient_of(self._weight).addmm_(grad.t(), kept.g)
        if self._self is not None:
            assert kept.v is not None
            gradient_of(self._self).addmm_(grad.t(), kept.v)

    @property
    def work(self) -> Work:
        """Two aggregations, two activations, and three products for each weight."""
        out_width, in_width = self._weight.shape
        maps = 1 if self._self is None else 2
        return Work(2 * self.width, 2 * in_width, 3 * maps * out_width * in_width)
