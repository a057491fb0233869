"""Where the rows of a GAT layer come from: the block before, or, in layer 0, the features."""

from __future__ import annotations

from torch import Tensor

from halowire.kernels import activate
from halowire.layers.attend_map import AttendMap, GatWeights
from halowire.layers.dense import empty_rows, product
from halowire.layers.departure import Departure, Following, depart
from halowire.layers.features import Features
from halowire.layers.returning import Returning
from halowire.layers.step import Step
from halowire.wire import Flight


class AttendHidden(AttendMap):
    """A hidden or last layer. What travels is ``z = x W^T``, or ``x`` where that is narrower or must not be dropped."""

    def __init__(
        self,
        x: Tensor,
        following: Following,
        departure: Departure | None,
        weights: GatWeights,
        concat: bool,
        slope: float,
        step: Step,
        layer: int,
    ) -> None:
        super().__init__(weights, concat, slope, step)
        self._x, self._following, self._departure, self._layer = x, following, departure, layer
        self._launched_before = departure is not None

    def _own_rows(self) -> Tensor:
        x, weight, spread = self._x, self._weights.weight, self._spread
        self._departure = self._departure or depart(x, self._following, spread, self._layer)
        z, done = self._departure.product, spread.exchange.num_boundary
        if z is None:
            z, done = empty_rows(x, spread.num_rows_held, weight.shape[0]), 0
        product(x[done:], weight.t(), out=z[done : self._n])
        return z

    def _halo_rows(self, out: Tensor) -> None:
        assert self._departure is not None
        exchange, flight, drop = self._spread.exchange, self._departure.flight, self._departure.drop
        if self._departure.product is not None:
            out.copy_(exchange.finish_rows(flight, out.shape[1]))
            return
        rows = exchange.finish_rows(flight, self._x.shape[1])
        rows = rows.clone() if drop is None else activate(rows, None, None, False, drop)[0]
        self._x_halo = rows
        product(rows, self._weights.weight.t(), out=out)

    def _send_back(self, halo_grad: Tensor) -> Flight | None:
        assert self._departure is not None
        rows = halo_grad if self._departure.product is not None else product(halo_grad, self._weights.weight)
        return self._spread.exchange.start_back(rows, self._layer)

    def _input_grads(self, z_grad: Tensor, flight: Flight | None, needs_x: bool) -> tuple[Tensor | None, Tensor]:
        assert self._departure is not None
        x, weight, own, exchange = self._x, self._weights.weight, z_grad[: self._n], self._spread.exchange
        if self._departure.product is None:
            x_grad, weight_grad = product(own, weight), own.t() @ x
            weight_grad.addmm_(z_grad[self._n :].t(), self._x_halo)
            returning = Returning(flight)
        else:
            boundary = exchange.num_boundary
            x_grad = empty_rows(x, *x.shape)
            product(own[boundary:], weight, out=x_grad[boundary:])
            x_grad[:boundary].zero_()
            weight_grad = own[boundary:].t() @ x[boundary:]
            returning = Returning(flight, own, x, weight)
        if self._launched_before and needs_x:
            self._step.returning[self._layer] = returning
        elif (late := returning.land(exchange, x_grad)) is not None:
            weight_grad += late
        return x_grad, weight_grad


class AttendFeatures(AttendMap):
    """Layer 0: the raw halo rows are here, and are multiplied locally; nothing travels."""

    def __init__(self, features: Features, weights: GatWeights, concat: bool, slope: float, step: Step) -> None:
        super().__init__(weights, concat, slope, step)
        self._features = features

    def _own_rows(self) -> Tensor:
        weight = self._weights.weight
        z = empty_rows(weight, self._spread.num_rows_held, weight.shape[0])
        self._features.own.write(weight, z[: self._n])
        return z

    def _halo_rows(self, out: Tensor) -> None:
        assert self._features.halo is not None
        self._features.halo.write(self._weights.weight, out)

    def _send_back(self, halo_grad: Tensor) -> Flight | None:
        return None

    def _input_grads(self, z_grad: Tensor, flight: Flight | None, needs_x: bool) -> tuple[Tensor | None, Tensor]:
        features, head = self._features, self._spread.head
        assert features.halo is not None
        weight_grad = features.tail.weight_grad(z_grad[head : self._n])
        weight_grad = features.head.weight_grad(z_grad[:head], weight_grad)
        return None, features.halo.weight_grad(z_grad[self._n :], weight_grad)
