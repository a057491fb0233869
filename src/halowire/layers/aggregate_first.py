"""A graph layer that aggregates first and multiplies its weights after; its input travels."""

from __future__ import annotations

from torch import Tensor

from halowire.kernels import Csr, row_range
from halowire.layers.dense import affine, empty_rows, product
from halowire.layers.departure import Departure
from halowire.layers.layer_map import Gradients, Weights
from halowire.layers.returning import Returning
from halowire.layers.step import Step


class AggregateFirst:
    """``out = (A x) W^T + x W_self^T + b``.

    Forward of the head: ``inner_head @ x`` and the self product, then the arriving rows, then the product with ``W``.
    Backward, with ``g = grad W``: ``g`` of the tail; later ``g`` of the head, of which ``halo_t @ g`` leaves; while it
    flies, ``x_grad = inner_t @ g + grad W_self`` and the weight gradients.
    """

    def __init__(self, x: Tensor, weights: Weights, departure: Departure | None, step: Step, layer: int) -> None:
        self._x, self._weights, self._departure = x, weights, departure
        self._step, self._spread, self._layer = step, step.spread, layer
        self._launched_before = departure is not None

    def open(self) -> None:
        """Launch ``x`` if the block before did not."""
        if self._departure is None:
            self._departure = Departure(self._spread.exchange.start(self._x, self._layer))
        self._gathered = empty_rows(self._x, *self._x.shape)

    def arrive(self, out: Tensor) -> None:
        """``inner_head @ x`` and the self product, while the halo's rows fly."""
        assert self._departure is not None
        self._gather(out, self._spread.inner_head, slice(self._spread.head))
        self._arrival = self._spread.exchange.arrive(self._departure.flight, self._departure.drop)

    def head(self, out: Tensor, rows: slice) -> None:
        """The halo's rows are added in the memory of the gathered ones; then the product with ``W``."""
        gathered = self._gathered[rows]
        self._arrival.add(row_range(self._spread.halo_head, rows.start, rows.stop), gathered)
        self._multiply(out[rows], gathered)

    def tail(self, out: Tensor) -> None:
        """The same without halo."""
        gathered = self._gather(out, self._spread.inner_tail, slice(self._spread.head, None))
        self._multiply(out, gathered)

    def _gather(self, out: Tensor, inner: Csr, rows: slice) -> Tensor:
        """``inner @ x``, and the self product where there is one."""
        gathered = inner.matmul(self._x, out=self._gathered[rows])
        if self._weights.weight_self is not None:
            affine(self._x[rows], self._weights.weight_self.t(), self._weights.bias, out)
        return gathered

    def _multiply(self, out: Tensor, gathered: Tensor) -> None:
        weight, weight_self, bias = self._weights
        if weight_self is None:
            affine(gathered, weight.t(), bias, out)
        else:
            out.addmm_(gathered, weight.t())

    def tail_back(self, grad: Tensor) -> None:
        """``g`` of the tail."""
        self._gathered_grad = empty_rows(self._x, *self._x.shape)
        product(grad, self._weights.weight, out=self._gathered_grad[self._spread.head :])

    def back(self, grad: Tensor, needs_x: bool) -> Gradients:
        """``g`` of the head, its halo part away, then everything else."""
        weight, weight_self, bias = self._weights
        spread, x, gathered_grad = self._spread, self._x, self._gathered_grad
        head = product(grad[: spread.head], weight, out=gathered_grad[: spread.head])
        flight = spread.send_back(head, self._layer)
        if weight_self is None:
            x_grad, self_grad = spread.inner_t.matmul(gathered_grad), None
        else:
            x_grad, self_grad = product(grad, weight_self), grad.t() @ x
            spread.inner_t.matmul(gathered_grad, out=x_grad, accumulate=True)
        weight_grad = grad.t() @ self._gathered
        bias_grad = None if bias is None else grad.sum(0)
        if self._launched_before and needs_x:
            self._step.returning[self._layer] = Returning(flight)
        else:
            spread.exchange.finish_back(flight, x_grad)
        return Gradients(x_grad, weight_grad, self_grad, bias_grad)
