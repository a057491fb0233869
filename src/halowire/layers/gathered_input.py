"""Layer 0 on dense features: the whole graph's aggregate is cached, and two dense products are left."""

from __future__ import annotations

from torch import Tensor

from halowire.layers.dense import add_product, add_rows, affine
from halowire.layers.features import Columns, Features
from halowire.layers.layer_map import Gradients, Weights
from halowire.layers.propagation import Propagation


class Gathered:
    """``A x`` is cached: two dense products, each way in two parts."""

    def __init__(self, features: Features, gathered: Tensor, weights: Weights, spread: Propagation) -> None:
        self._features, self._weights = features, weights
        self._head, self._tail = gathered[: spread.head], gathered[spread.head :]
        self._at = spread.head

    def open(self) -> None:
        """Nothing: head and tail share nothing."""

    def arrive(self, out: Tensor) -> None:
        """Nothing comes."""

    def head(self, out: Tensor, rows: slice) -> None:
        """The head's products."""
        self._rows(out[rows], self._head[rows], self._features.head.rows(rows))

    def tail(self, out: Tensor) -> None:
        """The tail's products."""
        self._rows(out, self._tail, self._features.tail)

    def _rows(self, out: Tensor, gathered: Tensor, own: Columns) -> None:
        weight, weight_self, bias = self._weights
        affine(gathered, weight.t(), bias, out)
        if weight_self is not None:
            own.times(weight_self, out=out)

    def tail_back(self, grad: Tensor) -> None:
        """The tail's part of the weight gradients."""
        self._sums = self._back(grad, self._tail, self._features.tail, None)

    def back(self, grad: Tensor, needs_x: bool) -> Gradients:
        """The head's part, added to the tail's."""
        return self._back(grad[: self._at], self._head, self._features.head, self._sums) if self._at else self._sums

    def _back(self, grad: Tensor, gathered: Tensor, own: Columns, before: Gradients | None) -> Gradients:
        weight_grad = add_product(before and before.weight, grad.t(), gathered)
        self_grad = bias_grad = None
        if self._weights.weight_self is not None:
            self_grad = own.weight_grad(grad, before and before.weight_self)
        if self._weights.bias is not None:
            bias_grad = add_rows(grad, before and before.bias)
        return Gradients(None, weight_grad, self_grad, bias_grad)
