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
from halowire.wire.policy import BACKWARD, EXACT, FORWARD


@dataclass(frozen=True, eq=False)
class Crossing:
    """One of the exchanges of a model's pass, with its number and the training epoch whose rate and freshness apply.

    Without an epoch the rows travel exactly.
    """

    exchange: HaloExchange
    number: int
    epoch: int | None

    @property
    def exact(self) -> bool:
        """Whether the rows travel as they are, and at once."""
        policy = self.exchange.policy
        if self.epoch is None:
            return True
        plain = policy.codec is None and policy.decay is None and not policy.freshness.delayed
        return plain and all(policy.rates(self.epoch, self.number, way) == EXACT for way in (FORWARD, BACKWARD))

    def start(self, rows: Tensor) -> Message | None:
        """Launch the boundary rows among the owned ``rows`` ``[n, k]``; returns the message that is to be used."""
        self.exchange.begin(self.epoch)
        delta = self.epoch is not None and self.exchange.policy.decay is not None
        return self.exchange.start(rows, self.number, delta)

    def start_back(self, halo_grad: Tensor) -> Message | None:
        """Launch the gradients ``[h, k]`` of the halo rows; returns the message that is to be used."""
        with self.backward():
            return self.exchange.start_back(halo_grad, self.number)

    @contextmanager
    def backward(self) -> Iterator[None]:
        """Book everything inside the block as the backward pass of this crossing's epoch."""
        self.exchange.begin(self.epoch)
        with self.exchange.transport.ledger.account(TRAIN):  # a user's own training loop opens no account
            yield


class Extend(Function):
    """Extends ``[n, k]`` owned rows to ``[n + h, k]`` owned and halo rows; backward, halo gradients go to their owners.

    No computation hides the exchange: the model's own code, which comes next, needs all rows.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, crossing: Crossing) -> Tensor:
        """Send the boundary rows, and append the halo rows that arrive."""
        ctx.crossing = crossing
        halo = crossing.exchange.finish_rows(crossing.start(rows), rows.shape[1])
        return torch.cat([rows, halo])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Send the halo rows' gradients to their owners; add the gradients that arrive to those of the owned rows."""
        exchange: HaloExchange = ctx.crossing.exchange
        own, halo = torch.split(grads[0], [grads[0].shape[0] - exchange.num_halo, exchange.num_halo])
        message = ctx.crossing.start_back(halo.contiguous())
        total = own.clone(memory_format=torch.contiguous_format)
        exchange.finish_back(message, total)
        return total, None
