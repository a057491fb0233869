"""Blocks: the layers of a model as the pipeline runs them, on any rows, each split at its one aggregation.

    v = f(u)              activation of the block's input rows, ``[m, in]``
    a = v  or  v W^T      what is aggregated, and sent between parts, ``[m, width]``
    g = A a               the engine's part
    u' = ...              the block's output rows from g, v, u and, in GCNII, the initial rows h_0

Backward is written out by hand, in the same four steps: the engine needs the gradient of g of all blocks in buffers of
its own, weight gradients are added in place, and what is kept from forward is a choice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from halowire.kernels import empty
from halowire.layers.dense import affine, product
from halowire.layers.departure import narrows
from halowire.schedules.rows import Activate, Rows, gradient_of


@dataclass(eq=False)
class Kept:
    """What the forward of a block leaves to its backward, for some rows: ``u``, ``g`` and, where needed, ``v``."""

    u: Tensor | None
    stats: Tensor | None
    v: Tensor | None
    g: Tensor | None = None


class GraphBlock(ABC):
    """One block. ``layer`` names its exchange, ``width`` is that of ``a`` and ``g``, ``out_width`` that of ``u'``."""

    def __init__(self, layer: int, width: int, out_width: int, activate: Activate) -> None:
        self.layer, self.width, self.out_width, self.activate = layer, width, out_width, activate

    uses_v = False
    """whether ``after`` needs ``v`` itself"""
    multiplies = False
    """whether ``a`` is ``v W^T``"""

    def begin(self) -> None:
        """The weights changed."""
        return

    def before(self, u: Tensor, rows: Rows, out: Tensor) -> Kept:
        """Write ``a`` to ``out`` ``[m, width]``: ``v``, unless the weights come first."""
        return Kept(u, self.activate.forward(u, rows, out), out if self.uses_v else None)

    def mix(self, kept: Kept, g: Tensor, initial: Tensor | None) -> None:
        """Take the aggregate (and overwrite it, where the initial rows are mixed in)."""
        kept.g = g

    @abstractmethod
    def after(self, kept: Kept, out: Tensor) -> None:
        """Write ``u'`` to ``out``; may run again in backward, with the same bits."""

    @abstractmethod
    def after_back(self, kept: Kept, grad: Tensor, g_grad: Tensor, initial_grad: Tensor | None) -> Tensor | None:
        """From ``grad`` of ``u'``: write that of ``g`` to ``g_grad``; that of ``v`` as far as it comes from here."""

    @abstractmethod
    def before_back(self, kept: Kept, a_grad: Tensor, v_grad: Tensor | None, grad: Tensor, rows: Rows) -> Tensor:
        """The gradient of ``u`` from those of ``a`` (``v_grad`` included, where ``a`` is ``v``) and of ``u'``."""


class ConvBlock(GraphBlock):
    """``u' = scale (A v W^T + v W_self^T + b) + skip u``: GCN, GraphSAGE, and ResGCN+ with both factors 1.

    The weights come first where they narrow the rows.
    """

    def __init__(
        self,
        layer: int,
        activate: Activate,
        weight: nn.Parameter,
        weight_self: nn.Parameter | None,
        bias: nn.Parameter | None,
        scale: float = 1.0,
        skip: float = 0.0,
    ) -> None:
        self.multiplies, self.uses_v = narrows(weight), weight_self is not None
        super().__init__(layer, min(weight.shape), weight.shape[0], activate)
        self._weight, self._self, self._bias, self._scale, self._skip = weight, weight_self, bias, scale, skip

    def before(self, u: Tensor, rows: Rows, out: Tensor) -> Kept:
        """``v W^T`` where it is narrower."""
        if not self.multiplies:
            return super().before(u, rows, out)
        v = empty(*u.shape)
        stats = self.activate.forward(u, rows, v)
        torch.mm(v, self._weight.t(), out=out)
        return Kept(u, stats, v)

    def after(self, kept: Kept, out: Tensor) -> None:
        """See the class."""
        g = kept.g
        assert g is not None
        if not self.multiplies:
            affine(g, self._weight.t(), self._bias, out)
        elif self._bias is None:
            out.copy_(g)
        else:
            torch.add(g, self._bias, out=out)
        if self._self is not None:
            assert kept.v is not None
            out.addmm_(kept.v, self._self.t())
        if self._scale != 1:
            out.mul_(self._scale)
        if self._skip:
            assert kept.u is not None
            out.add_(kept.u, alpha=self._skip)

    def after_back(self, kept: Kept, grad: Tensor, g_grad: Tensor, initial_grad: Tensor | None) -> Tensor | None:
        """``g_grad = grad W``, ``v_grad = grad W_self``, and the weight gradients."""
        if self._scale != 1:
            grad = torch.mul(grad, self._scale, out=empty(*grad.shape))
        if self._bias is not None:
            gradient_of(self._bias).add_(grad.sum(0))
        if self.multiplies:
            g_grad.copy_(grad)
        else:
            assert kept.g is not None
            gradient_of(self._weight).addmm_(grad.t(), kept.g)
            torch.mm(grad, self._weight, out=g_grad)
        if self._self is None:
            return None
        assert kept.v is not None
        gradient_of(self._self).addmm_(grad.t(), kept.v)
        return product(grad, self._self)

    def before_back(self, kept: Kept, a_grad: Tensor, v_grad: Tensor | None, grad: Tensor, rows: Rows) -> Tensor:
        """Through ``W`` where it came first, through the activation, and along the skip."""
        assert kept.u is not None
        out = a_grad
        if self.multiplies:
            assert kept.v is not None
            gradient_of(self._weight).addmm_(a_grad.t(), kept.v)
            out = product(a_grad, self._weight) if v_grad is None else v_grad.addmm_(a_grad, self._weight)
        self.activate.backward(out, kept.u, kept.stats, rows)
        return out.add_(grad, alpha=self._skip) if self._skip else out


class InitialBlock(GraphBlock):
    """GCNII: ``u' = s M^T``, ``s = (1 - alpha) A v + alpha h_0``, ``M = (1 - theta) I + theta W``."""

    def __init__(self, layer: int, activate: Activate, weight: nn.Parameter, alpha: float, theta: float) -> None:
        super().__init__(layer, weight.shape[1], weight.shape[0], activate)
        self._weight, self._alpha, self._theta = weight, alpha, theta
        self._map = self._map_back = torch.empty(0)

    def begin(self) -> None:
        """``M`` of this pass, and ``(1 - alpha) M``: one small product instead of a large one and a sum."""
        self._map = self._weight.detach() * self._theta
        self._map.diagonal().add_(1 - self._theta)
        self._map_back = self._map * (1 - self._alpha)

    def mix(self, kept: Kept, g: Tensor, initial: Tensor | None) -> None:
        """``s``, in the memory of ``g``."""
        assert initial is not None
        kept.g = g.lerp_(initial, self._alpha)

    def after(self, kept: Kept, out: Tensor) -> None:
        """``s M^T``."""
        assert kept.g is not None
        torch.mm(kept.g, self._map.t(), out=out)

    def after_back(self, kept: Kept, grad: Tensor, g_grad: Tensor, initial_grad: Tensor | None) -> Tensor | None:
        """``g_grad = (1 - alpha) grad M``, of which ``h_0`` gets ``alpha / (1 - alpha)``."""
        assert kept.g is not None and initial_grad is not None
        gradient_of(self._weight).addmm_(grad.t(), kept.g, alpha=self._theta)
        torch.mm(grad, self._map_back, out=g_grad)
        initial_grad.add_(g_grad, alpha=self._alpha / (1 - self._alpha))
        return None

    def before_back(self, kept: Kept, a_grad: Tensor, v_grad: Tensor | None, grad: Tensor, rows: Rows) -> Tensor:
        """Through the activation."""
        assert kept.u is not None
        self.activate.backward(a_grad, kept.u, kept.stats, rows)
        return a_grad
