"""Owned rows extended by other workers' rows, as an autograd function: for PyG models and for pairs of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from halowire.events import TRAIN
from halowire.wire.halo_exchange import HaloExchange
from halowire.wire.message import Message


@dataclass(frozen=True, eq=False)
class Crossing:
    """One crossing of a pass: its exchange, its number, and the training epoch whose rate and freshness apply.

    Without an epoch the exchange is exact.
    """

    exchange: HaloExchange
    number: int
    epoch: int | None

    def start(self, rows: Tensor) -> Message | None:
        """Launch the boundary's rows of ``rows`` ``[n, k]``."""
        self.exchange.begin(self.epoch)
        delta = self.epoch is not None and self.exchange.policy.decay is not None
        return self.exchange.start(rows, self.number, delta)

    def start_back(self, halo_grad: Tensor) -> Message | None:
        """Launch the gradients ``[h, k]`` of the halo's rows."""
        with self.backward():
            return self.exchange.start_back(halo_grad, self.number)

    @contextmanager
    def backward(self) -> Iterator[None]:
        """What follows belongs to the backward of this crossing's epoch."""
        self.exchange.begin(self.epoch)
        with self.exchange.transport.ledger.account(TRAIN):  # in a loop of one's own nothing else says so
            yield


class Extend(Function):
    """``[n, k]`` owned rows to ``[n + h, k]`` owned and halo rows; backward, the halo's gradients return and are added.

    Nothing hides the wire: what is computed with the rows is the model's own code, which needs all of them.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, crossing: Crossing) -> Tensor:
        """Send the boundary rows, append what arrives."""
        ctx.crossing = crossing
        halo = crossing.exchange.finish_rows(crossing.start(rows), rows.shape[1])
        return torch.cat([rows, halo])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Send the halo's gradients back, add what returns to the owned rows' own."""
        exchange: HaloExchange = ctx.crossing.exchange
        own, halo = torch.split(grads[0], [grads[0].shape[0] - exchange.num_halo, exchange.num_halo])
        message = ctx.crossing.start_back(halo.contiguous())
        total = own.clone(memory_format=torch.contiguous_format)
        exchange.finish_back(message, total)
        return total, None
