"""Weight gradients in a loop of the user's own: summed over all workers when a backward pass ends."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.autograd import Variable

from halowire.wire import HaloExchange, Transport


@dataclass(frozen=True)
class Heard:
    """What backward passes told so far: how many losses, their sum, and how many seconds passed on rank 0."""

    losses: int = 0
    total: float = 0.0
    seconds: float = 0.0


class Reduction:
    """Sums the weight gradients of distributed models over all workers when a backward pass ends.

    A pass begins at the loss (`halowire.pyg.whole_loss.WholeMean`): gradients of earlier passes, which are summed
    already, are put aside; at the end the new ones are summed and added to them, so that several losses may be
    accumulated before a step. ``running`` is whether a pass has begun, ``heard`` is what the passes told.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.running = False
        self.heard = Heard()
        self._handed_over = False
        self._time = time.perf_counter()
        self._parameters: list[nn.Parameter] = []
        self._exchanges: list[HaloExchange] = []
        self._earlier: list[Tensor | None] = []

    def add(self, parameters: list[nn.Parameter]) -> None:
        """Sum the gradients of ``parameters`` too."""
        known = {id(parameter) for parameter in self._parameters}
        self._parameters += [parameter for parameter in parameters if id(parameter) not in known]

    def watch(self, exchange: HaloExchange) -> None:
        """Synchronise the next epoch of ``exchange`` when its rows have changed too much."""
        self._exchanges.append(exchange)

    def hand_over(self) -> None:
        """From now on another loop sums the gradients, and steers the exchanges by its losses."""
        self.running = True
        self._handed_over = True

    def hear(self, loss: float) -> None:
        """Note that a loss of the whole graph, or a term of it, went backward."""
        self.heard = replace(self.heard, losses=self.heard.losses + 1, total=self.heard.total + loss)

    def knows(self, values: Iterable[Tensor]) -> bool:
        """Whether one of ``values`` is a weight whose gradient is summed."""
        known = {id(parameter) for parameter in self._parameters}
        return any(id(value) in known for value in values)

    def steer(self, exchanges: Sequence[HaloExchange], epoch: int, before: Heard) -> Heard:
        """Decide on the bits of training pass ``epoch`` by the losses since ``before``; return what is known by now."""
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
        """Put earlier gradients aside, and sum those of this backward pass at its end."""
        if self.running:
            return
        self.running = True
        self._earlier = [parameter.grad for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None
        Variable._execution_engine.queue_callback(self._finish)

    def _finish(self) -> None:
        """Sum the new gradients, the changes of the exchanges' rows and rank 0's seconds in one message."""
        self.running = False
        new = [parameter.grad for parameter in self._parameters]
        # A weight that the loss does not reach has no gradient on any worker: they run the same code.
        parts = [grad.reshape(-1) for grad in new if grad is not None]
        numbers = [value for exchange in self._exchanges for value in exchange.take_change()]
        numbers.append(self._seconds())
        flat = torch.cat([*parts, torch.tensor(numbers, device=parts[0].device)]) if parts else torch.tensor(numbers)
        self.transport.all_reduce(flat, "reduction of the weight gradients")
        pieces = iter(torch.split(flat, [*(part.numel() for part in parts), len(numbers)]))
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
        """Seconds since the last backward pass on rank 0, 0 on other ranks: the sum is rank 0's, on all of them."""
        before = self._time
        self._time = time.perf_counter()
        return self._time - before if self.transport.rank == 0 else 0.0
