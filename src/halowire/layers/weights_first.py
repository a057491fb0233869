"""A graph layer that multiplies its weights first, because that narrows the rows that are sent and aggregated."""

from __future__ import annotations

from torch import Tensor

from halowire.kernels import Csr
from halowire.layers.dense import affine, empty_rows, product
from halowire.layers.departure import Departure, Following, depart
from halowire.layers.layer_map import Gradients, Weights
from halowire.layers.returning import Returning
from halowire.layers.step import Step


class WeightsFirst:
    """``out = A z + x W_self^T + b`` with ``z = x W^T``, which travels.

    Forward: ``z`` of the boundary is away (or leaves now), then ``z`` of the other rows, the self product and
    ``inner @ z``, then the arriving rows. Backward: ``halo_t @ grad`` leaves; while it flies
    ``z_grad = inner_t @ grad``, ``x_grad = grad W_self`` and, of the rows that were not sent,
    ``x_grad += z_grad W`` and ``weight_grad = z_grad^T x``; the boundary's follow when the gradients have returned.
    """

    def __init__(self, x: Tensor, weights: Weights, departure: Departure | None, step: Step, layer: int) -> None:
        self._x, self._weights, self._departure = x, weights, departure
        self._step, self._spread, self._layer = step, step.spread, layer
        self._launched_before = departure is not None

    def open(self) -> None:
        """Launch ``z`` of the boundary if the block before did not, then compute the rest of it."""
        weight, boundary = self._weights.weight, self._spread.exchange.num_boundary
        departure = self._departure or depart(self._x, Following(weight, True), self._spread, self._layer)
        assert departure.product is not None
        product(self._x[boundary:], weight.t(), out=departure.product[boundary:])
        self._departure = departure

    def arrive(self, out: Tensor) -> None:
        """``inner_head @ z`` and the self product, then the halo's rows."""
        assert self._departure is not None
        self._rows(out, self._spread.inner_head, slice(self._spread.head))
        self._spread.exchange.finish(self._departure.flight, self._spread.halo_head, out)

    def head(self, out: Tensor, rows: slice) -> None:
        """Nothing is left to do."""

    def tail(self, out: Tensor) -> None:
        """The same without halo."""
        self._rows(out, self._spread.inner_tail, slice(self._spread.head, None))

    def _rows(self, out: Tensor, inner: Csr, rows: slice) -> None:
        assert self._departure is not None and self._departure.product is not None
        _, weight_self, bias = self._weights
        if weight_self is not None:
            affine(self._x[rows], weight_self.t(), bias, out)
        inner.matmul(self._departure.product, out=out, accumulate=weight_self is not None)
        if weight_self is None and bias is not None:
            out += bias

    def tail_back(self, grad: Tensor) -> None:
        """Nothing: every product here needs all rows."""

    def back(self, grad: Tensor, needs_x: bool) -> Gradients:
        """The halo's gradients away, then what they do not touch."""
        weight, weight_self, bias = self._weights
        spread, x, boundary = self._spread, self._x, self._spread.exchange.num_boundary
        self._departure = None
        flight = spread.send_back(grad[: spread.head], self._layer)
        z_grad = spread.inner_t.matmul(grad)
        bias_grad = None if bias is None else grad.sum(0)
        if weight_self is None:
            x_grad, self_grad = empty_rows(x, *x.shape), None
            product(z_grad[boundary:], weight, out=x_grad[boundary:])
            x_grad[:boundary].zero_()
        else:
            x_grad, self_grad = product(grad, weight_self), grad.t() @ x
            x_grad[boundary:].addmm_(z_grad[boundary:], weight)
        weight_grad = z_grad[boundary:].t() @ x[boundary:]
        returning = Returning(flight, z_grad, x, weight)
        if self._launched_before and needs_x:
            self._step.returning[self._layer] = returning
        elif (late := returning.land(spread.exchange, x_grad)) is not None:
            weight_grad += late
        return Gradients(x_grad, weight_grad, self_grad, bias_grad)
