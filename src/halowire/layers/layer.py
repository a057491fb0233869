"""A graph layer, cut at its aggregation into two halves that run on any rows: prepare and finish.

    v = f(u)              prepare: activate the rows that enter the layer, ``[m, in]``,
    a = v  or  v W^T      and make the rows that are sent and aggregated, ``[m, width]``
    g = A a               the aggregation over all rows, which is not part of the layer
    u' = ...              finish: the rows that leave the layer, ``[m, out]``, from ``g`` and sometimes ``v`` and ``u``

``a = v W^T`` where that makes the rows that are sent narrower. Backward is written by hand in the same steps, because a
schedule decides when each step runs: first the gradients that other workers wait for, later weight gradients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from halowire.layers.activation import Activation
from halowire.layers.dense import empty_rows, gradient_of
from halowire.layers.rows import Kept, Rows


class Work(NamedTuple):
    """How much a piece of a model computes, forward and backward; the split into stages balances it.

    ``sums`` values are added per edge, ``values`` activated per node, ``products`` multiplied per node, and
    ``feature_products`` multiplied per stored value of the input features.
    """

    sums: int = 0
    values: int = 0
    products: int = 0
    feature_products: int = 0


class Preparing:
    """The first half of a layer: from the rows ``u`` that enter, ``[m, in]``, to ``a``, ``[m, width]``."""

    def __init__(self, activation: Activation, width: int, weight: nn.Parameter | None, bias: Tensor | None) -> None:
        """``weight`` ``[width, in]`` makes ``a = v weight^T + bias``; without it ``a`` is ``v``."""
        self.activation = activation
        self.width = width
        self.multiplies = weight is not None
        self.needs_v = False
        self._first_weight = weight
        self._first_bias = bias

    @property
    def prepare_parameters(self) -> list[nn.Parameter]:
        """The parameters to whose gradients this half adds."""
        own = [self._first_weight] if self._first_weight is not None else []
        return [*own, *self.activation.parameters]

    def keep(self, u: Tensor, a: Tensor) -> Kept:
        """Memory for what forward keeps for backward; forward will turn the rows ``u`` into ``a``."""
        v = empty_rows(u, *u.shape) if self.multiplies else a if self.needs_v else None
        return Kept(u, self.activation.stats_for(u), v)

    def prepare(self, kept: Kept, rows: Rows, a: Tensor) -> None:
        """Write ``a`` ``[m, width]`` from ``kept.u``."""
        assert kept.u is not None
        v = kept.v if self.multiplies else a
        assert v is not None
        self.activation.forward(kept.u, rows, v, kept.stats)
        if self._first_weight is not None:
            weight = self._first_weight.t()
            torch.mm(v, weight, out=a) if self._first_bias is None else torch.addmm(self._first_bias, v, weight, out=a)

    def input_grad(self, a_grad: Tensor, v_grad: Tensor | None) -> Tensor:
        """The matrix ``[m, in]`` in which :meth:`prepare_back` makes the gradient of ``u``.

        ``v_grad`` is the part of the gradient of ``v`` that did not pass the aggregation. Where ``a`` is ``v``,
        ``a_grad`` contains it already.
        """
        if self._first_weight is None:
            return a_grad
        return empty_rows(a_grad, a_grad.shape[0], self._first_weight.shape[1]) if v_grad is None else v_grad

    def prepare_back(self, kept: Kept, rows: Rows, a_grad: Tensor, u_grad: Tensor, adds: bool) -> None:
        """Write the gradient of ``u`` to ``u_grad``, from that of ``a``; ``adds``: ``u_grad`` holds ``v_grad``."""
        assert kept.u is not None
        if self._first_weight is not None:
            if adds:
                u_grad.addmm_(a_grad, self._first_weight)
            else:
                torch.mm(a_grad, self._first_weight, out=u_grad)
        self.activation.backward(u_grad, kept.u, kept.stats, rows)

    def prepare_weights(self, kept: Kept, a_grad: Tensor) -> None:
        """Add to the gradient of ``W``, where ``a`` is ``v W^T``."""
        if self._first_weight is not None:
            assert kept.v is not None
            gradient_of(self._first_weight).addmm_(a_grad.t(), kept.v)


class Layer(Preparing, ABC):
    """One graph layer of a model.

    Attributes:
        number: names the layer's exchange in the ledger, the policy and the random numbers.
        width: columns of the rows that are sent; ``sum_width``: of the aggregate; ``out_width``: of the output.
        multiplies: whether ``a`` is ``v W^T``; ``needs_v``: whether :meth:`finish` reads ``v``.
        skip: the factor with which the rows ``u`` that enter are added to the rows ``u'`` that leave.
    """

    def __init__(
        self, number: int, activation: Activation, width: int, out_width: int, weight: nn.Parameter | None = None
    ) -> None:
        super().__init__(activation, width, weight, None)
        self.number = number
        self.sum_width = width
        self.out_width = out_width
        self.skip = 0.0

    @property
    @abstractmethod
    def finish_parameters(self) -> list[nn.Parameter]:
        """The parameters to whose gradients the second half, or the aggregation, adds."""

    def begin(self) -> None:
        """Begin a pass over all rows, for which the weights may have changed."""
        return

    def finish_own(self, kept: Kept, out: Tensor) -> None:
        """Write to ``out`` the part of ``u'`` that needs no aggregate; :meth:`finish` adds the rest."""
        return

    def mix(self, kept: Kept, initial: Tensor | None) -> None:
        """Mix the initial rows ``[m, k]``, if the model has them, into the aggregate ``kept.g``; called once."""
        return

    @abstractmethod
    def finish(self, kept: Kept, out: Tensor) -> None:
        """Complete ``u'`` ``[m, out]``; backward may run this again, with the same result bit by bit."""

    @abstractmethod
    def finish_back(self, grad: Tensor, g_grad: Tensor) -> None:
        """Write the gradient of ``g`` to ``g_grad``, from ``grad``, the gradient of ``u'``."""

    def direct_back(self, grad: Tensor) -> Tensor | None:
        """The part of the gradient of ``v`` that does not pass the aggregation; None: there is none."""
        return None

    @abstractmethod
    def finish_weights(self, kept: Kept, grad: Tensor, g_grad: Tensor, initial_grad: Tensor | None) -> None:
        """Add to the weight gradients of the second half, and to the gradient of the initial rows."""

    @property
    @abstractmethod
    def work(self) -> Work:
        """How much the layer computes, forward and backward."""


class Output(Preparing):
    """``logits = f(u) W^T + b``: the first half of a layer, after which nothing is aggregated."""

    def __init__(self, activation: Activation, weight: nn.Parameter, bias: nn.Parameter | None) -> None:
        """``weight`` is ``[classes, k]``, ``bias`` is ``[classes]``."""
        super().__init__(activation, weight.shape[0], weight, bias)
        self._weight = weight
        self._bias = bias

    @property
    def prepare_parameters(self) -> list[nn.Parameter]:
        """All parameters of the output."""
        return [*super().prepare_parameters, *([] if self._bias is None else [self._bias])]

    def prepare_weights(self, kept: Kept, a_grad: Tensor) -> None:
        """Add to the gradients of ``W`` and ``b``."""
        super().prepare_weights(kept, a_grad)
        if self._bias is not None:
            gradient_of(self._bias).add_(a_grad.sum(0))

    @property
    def work(self) -> Work:
        """An activation and three products, forward and backward together."""
        classes, width = self._weight.shape
        return Work(values=width, products=3 * classes * width)
