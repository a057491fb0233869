"""Layer 0: the same map as every graph layer, but on features that never change and so never travel."""

from __future__ import annotations

from torch import Tensor

from halowire.kernels import Csr
from halowire.nn.dense import add_product, affine
from halowire.nn.features import Columns, Features
from halowire.nn.layer_map import Gradients, LayerMap, Weights
from halowire.nn.propagation import Propagation


def input_map(features: Features, weights: Weights, spread: Propagation) -> LayerMap:
    """``out = A x W^T + x W_self^T + b`` on the owned rows, without any exchange."""
    if features.gathered is not None:
        return Gathered(features, features.gathered, weights, spread)
    assert features.halo is not None
    return Local(features, features.halo, weights, spread)


class Gathered:
    """``A x`` is cached: two dense products, each way in two parts."""

    def __init__(self, features: Features, gathered: Tensor, weights: Weights, spread: Propagation) -> None:
        self._features, self._weights = features, weights
        self._head, self._tail = gathered[: spread.head], gathered[spread.head :]
        self._at = spread.head

    def open(self) -> None:
        """Nothing: head and tail share nothing."""

    def head(self, out: Tensor) -> None:
        """The head's products."""
        self._rows(out, self._head, self._features.head)

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
            bias_grad = _add_rows(grad, before and before.bias)
        return Gradients(None, weight_grad, self_grad, bias_grad)


class Local:
    """Raw halo rows are here: ``z = x W^T`` of own and halo rows, then ``out = inner z + halo z_halo``."""

    def __init__(self, features: Features, halo: Columns, weights: Weights, spread: Propagation) -> None:
        self._features, self._halo, self._weights, self._spread = features, halo, weights, spread

    def open(self) -> None:
        """``z`` of all rows: every part of ``out`` needs it."""
        self._z = self._features.own.times(self._weights.weight)

    def head(self, out: Tensor) -> None:
        """The head has the edges from the halo."""
        self._rows(out, self._spread.inner_head, self._features.head)
        self._spread.halo_head.matmul(self._halo.times(self._weights.weight), out=out, accumulate=True)

    def tail(self, out: Tensor) -> None:
        """The same without halo."""
        self._rows(out, self._spread.inner_tail, self._features.tail)

    def _rows(self, out: Tensor, inner: Csr, own: Columns) -> None:
        inner.matmul(self._z, out=out)
        if self._weights.weight_self is not None:
            own.times(self._weights.weight_self, out=out)
        if self._weights.bias is not None:
            out += self._weights.bias

    def tail_back(self, grad: Tensor) -> None:
        """The tail's part of the gradients of ``W_self`` and the bias."""
        has_self, has_bias = self._weights.weight_self is not None, self._weights.bias is not None
        self._self_grad = self._features.tail.weight_grad(grad) if has_self else None
        self._bias_grad = _add_rows(grad, None) if has_bias else None

    def back(self, grad: Tensor, needs_x: bool) -> Gradients:
        """The head's part, and ``weight_grad = (inner_t @ grad)^T x + (halo_t @ grad)^T x_halo``."""
        spread, features, at = self._spread, self._features, self._spread.head
        head, z_grad = grad[:at], spread.inner_t.matmul(grad)
        weight_grad = features.tail.weight_grad(z_grad[at:])
        weight_grad = features.head.weight_grad(z_grad[:at], weight_grad)
        weight_grad = self._halo.weight_grad(spread.halo_t.matmul(head), weight_grad)
        self_grad = self._self_grad
        if self_grad is not None:
            self_grad = features.head.weight_grad(head, self_grad)
        bias_grad = None if self._bias_grad is None else _add_rows(head, self._bias_grad)
        return Gradients(None, weight_grad, self_grad, bias_grad)


def _add_rows(grad: Tensor, before: Tensor | None) -> Tensor:
    total = grad.sum(0)
    return total if before is None else total.add_(before)
