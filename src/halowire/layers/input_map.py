"""Layer 0: the same map as every graph layer, but on features that never change and so need not travel."""

from __future__ import annotations

from torch import Tensor

from halowire.kernels import Csr
from halowire.layers.dense import add_rows
from halowire.layers.features import Columns, Features
from halowire.layers.gathered_input import Gathered
from halowire.layers.layer_map import Gradients, LayerMap, Weights
from halowire.layers.propagation import Propagation
from halowire.layers.resent_input import Resent
from halowire.layers.step import Step


def input_map(features: Features, weights: Weights, step: Step, layer: int) -> LayerMap:
    """``out = A x W^T + x W_self^T + b`` on the owned rows, without any exchange unless the policy asks for it."""
    if features.gathered is None:
        assert features.halo is not None
        return Local(features, features.halo, weights, step.spread)
    if step.training and step.spread.exchange.policy.resend_input:
        return Resent(features, features.gathered, weights, step, layer)
    return Gathered(features, features.gathered, weights, step.spread)


class Local:
    """Raw halo rows are here: ``z = x W^T`` of own and halo rows, then ``out = inner z + halo z_halo``."""

    def __init__(self, features: Features, halo: Columns, weights: Weights, spread: Propagation) -> None:
        self._features, self._halo, self._weights, self._spread = features, halo, weights, spread

    def open(self) -> None:
        """``z`` of all rows: every part of ``out`` needs it."""
        self._z = self._features.own.times(self._weights.weight)

    def arrive(self, out: Tensor) -> None:
        """The head has the edges from the halo."""
        self._rows(out, self._spread.inner_head, self._features.head)
        self._spread.halo_head.matmul(self._halo.times(self._weights.weight), out=out, accumulate=True)

    def head(self, out: Tensor, rows: slice) -> None:
        """Nothing is left to do."""

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
        self._bias_grad = add_rows(grad, None) if has_bias else None

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
        bias_grad = None if self._bias_grad is None else add_rows(head, self._bias_grad)
        return Gradients(None, weight_grad, self_grad, bias_grad)
