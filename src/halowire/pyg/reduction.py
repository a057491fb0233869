"""The loss over all workers, whose backward ends with the weight gradients of the whole graph on every worker."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function, Variable

from halowire.errors import InputError
from halowire.wire import HaloExchange, Transport

SPREAD = 1e-9
"""Relative variance of a number over the workers that rounding may cause."""


@dataclass(frozen=True)
class Heard:
    """How many losses went backward so far, their sum, and the seconds of rank 0."""

    losses: int = 0
    total: float = 0.0
    seconds: float = 0.0


class Reduction:
    """Sums the weight gradients of distributed models over all workers when a backward pass ends.

    A pass begins at the loss (`WholeMean`): gradients of earlier passes, which are whole already, are put aside; at the
    end the new ones are summed and added to them, so that several losses may be accumulated before a step.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.running = False
        self.heard = Heard()
        self._handed_over, self._time = False, time.perf_counter()
        self._parameters: list[nn.Parameter] = []
        self._exchanges: list[HaloExchange] = []
        self._earlier: list[Tensor | None] = []

    def add(self, parameters: list[nn.Parameter]) -> None:
        """Reduce the gradients of ``parameters`` too."""
        known = {id(parameter) for parameter in self._parameters}
        self._parameters += [parameter for parameter in parameters if id(parameter) not in known]

    def watch(self, exchange: HaloExchange) -> None:
        """Synchronise the next epoch of ``exchange`` when its rows have changed too much."""
        self._exchanges.append(exchange)

    def hand_over(self) -> None:
        """From now on another loop sums the gradients, and steers the exchanges by its losses."""
        self.running = self._handed_over = True

    def hear(self, loss: float) -> None:
        """A loss of the whole graph, or a part of it, went backward."""
        self.heard = replace(self.heard, losses=self.heard.losses + 1, total=self.heard.total + loss)

    def knows(self, values: Iterable[Tensor]) -> bool:
        """Whether one of ``values`` is a weight whose gradient is summed."""
        known = {id(parameter) for parameter in self._parameters}
        return any(id(value) in known for value in values)

    def steer(self, exchanges: Sequence[HaloExchange], epoch: int, before: Heard) -> Heard:
        """Decide on the bits of the training pass ``epoch`` by the losses since ``before``; what was heard by now."""
        now = self.heard
        for exchange in () if self._handed_over else exchanges:
            base = exchange.policy.base
            if base is None:
                continue
            if now.losses > before.losses:
                base.observe(now.total - before.total, now.seconds - before.seconds)
            base.keep_up(epoch)
            exchange.synchronise_next |= exchange.policy.freshness.adaptive and base.synchronous
        return now

    def begin(self) -> None:
        """A backward pass has begun."""
        if self.running:
            return
        self.running = True
        self._earlier = [parameter.grad for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None
        Variable._execution_engine.queue_callback(self._finish)

    def _finish(self) -> None:
        self.running = False
        new = [parameter.grad for parameter in self._parameters]
        # A weight that the loss does not reach has no gradient on any worker: they run the same code.
        parts = [grad.reshape(-1) for grad in new if grad is not None]
        changes = [value for exchange in self._exchanges for value in exchange.take_change()]
        changes.append(self._seconds())
        flat = torch.cat([*parts, torch.tensor(changes, device=parts[0].device)]) if parts else torch.tensor(changes)
        self.transport.all_reduce(flat, "reduction of the weight gradients")
        pieces = iter(torch.split(flat, [*(part.numel() for part in parts), len(changes)]))
        for parameter, grad, earlier in zip(self._parameters, new, self._earlier, strict=True):
            if grad is not None:
                grad.copy_(next(pieces).view_as(grad))
                parameter.grad = grad if earlier is None else earlier.add_(grad)
            else:
                parameter.grad = earlier
        self._earlier = []
        *changes, seconds = next(pieces).tolist()
        self.heard = replace(self.heard, seconds=self.heard.seconds + seconds)
        for exchange, change, norm in zip(self._exchanges, changes[::2], changes[1::2], strict=True):
            threshold = exchange.policy.freshness.threshold
            exchange.synchronise_next = 0 < threshold**2 * norm < change

    def _seconds(self) -> float:
        """Rank 0's since the last backward pass; the other workers take its word."""
        now, before = time.perf_counter(), self._time
        self._time = now
        return now - before if self.transport.rank == 0 else 0.0


class WholeMean(Function):
    """The mean of all workers' values; on every worker, and so is its gradient ``1 / count``."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, reduction: Reduction) -> Tensor:
        """``sum over workers of sum(values) / sum over workers of the number of values``."""
        sums = torch.stack([values.sum().double(), torch.tensor(float(values.numel()), device=values.device).double()])
        total, count = reduction.transport.all_reduce(sums, "reduction of the loss", account=None)
        if not count:
            raise InputError("the loss has no rows on any worker; check the mask")
        ctx.reduction, ctx.count, ctx.shape = reduction, float(count), values.shape
        mean: Tensor = total / count
        ctx.mean = float(mean)
        return mean.to(values.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """``1 / count`` for every value; from here on gradients are summed."""
        ctx.reduction.begin()
        ctx.reduction.hear(float(grads[0]) * ctx.mean)
        return (grads[0] / ctx.count).expand(ctx.shape), None


class Once(Function):
    """A term of the loss that every worker has, as a penalty on the weights; its gradient is shared among them."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, reduction: Reduction) -> Tensor:
        """``value``, which must be the same on all workers."""
        own = value.detach().double()
        first, second = reduction.transport.all_reduce(torch.stack([own, own.square()]), "check of the penalty", None)
        mean, size = first / reduction.transport.size, reduction.transport.size
        if float(second / size - mean.square()) > SPREAD * float(mean.square()):
            raise InputError(
                "the penalty of the loss is not the same on all workers, so it depends on rows; put what depends on "
                "rows into the values: data.mean(values + ..., penalty=...)"
            )
        ctx.reduction, ctx.value = reduction, float(own)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """An equal share of the gradient for every worker; they are summed at the end."""
        ctx.reduction.begin()
        ctx.reduction.hear(float(grads[0]) * ctx.value)
        return grads[0] / ctx.reduction.transport.size, None


class Guarded(Function):
    """The output of a distributed model, as it is; backward refuses a loss that is not summed over the workers."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, reduction: Reduction) -> Tensor:
        """``values``."""
        ctx.reduction = reduction
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient as it is."""
        if not ctx.reduction.running:
            raise InputError(
                "backward of a distributed model began at a loss of this worker's rows alone; make it the loss of all "
                "workers: loss = data.mean(values), with one value per row (reduction='none')"
            )
        return grads[0], None
