"""The loss over all workers, whose backward ends with the weight gradients of the whole graph on every worker."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function, Variable

from halowire.exchange import HaloExchange, Transport
from halowire.kernels import InputError


class Reduction:
    """Sums the weight gradients of distributed models over all workers when a backward pass ends.

    A pass begins at the loss (`WholeMean`): gradients of earlier passes, which are whole already, are put aside; at the
    end the new ones are summed and added to them, so that several losses may be accumulated before a step.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.running = False
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
        """From now on another loop sums the gradients."""
        self.running = True

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
        for exchange, (change, norm) in zip(self._exchanges, next(pieces).view(-1, 2).tolist(), strict=True):
            threshold = exchange.policy.freshness.threshold
            exchange.synchronise_next = 0 < threshold**2 * norm < change


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
        return mean.to(values.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """``1 / count`` for every value; from here on gradients are summed."""
        ctx.reduction.begin()
        return (grads[0] / ctx.count).expand(ctx.shape), None


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
