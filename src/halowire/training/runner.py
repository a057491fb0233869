"""Runners: what the training loop drives, one worker's part of a model on its part of a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from halowire.layers import Model
from halowire.partitioning import Shard
from halowire.training.config import Config
from halowire.training.task import Learnt
from halowire.wire import HaloExchange, Transport

Complete = Callable[[nn.Parameter], None]
"""Told of every parameter whose gradient is complete."""


class Runner(Protocol):
    """One worker's part of a model on its part of a graph.

    Attributes:
        parameters: those of the model that this worker trains, by name.
        shard: what evaluation sees; ``task`` its labels (none where this worker has no logits).
        peers: the workers that train the same parameters; ``line`` those that train the others, on the same part.
        one_backward: an epoch has one backward pass, after which a gradient is complete.
        split: how many blocks of the model every stage has; empty where there are no stages.
    """

    parameters: dict[str, nn.Parameter]
    shard: Shard
    num_features: int
    task: Learnt
    peers: Transport
    line: Transport | None
    exchange: HaloExchange
    one_backward: bool
    split: tuple[int, ...]

    @property
    def model(self) -> nn.Module:
        """The whole model."""

    def forward_backward(self, epoch: int, complete: Complete) -> Tensor:
        """One pass forward and backward; this worker's share of the loss."""

    def logits(self) -> Tensor:
        """Logits of the rows of ``task``, evaluated exactly."""

    @property
    def remembers(self) -> bool:
        """Whether the next epoch depends on more than the weights."""

    def state(self) -> dict[str, Tensor]:
        """What the next epoch depends on beside the weights."""

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from :meth:`state`."""

    def facts(self) -> dict[str, Any]:
        """What the start event tells of this run: how the exchange of every layer is hidden."""

    def events(self, epoch: int) -> dict[str, Any] | None:
        """What is to be told of ``epoch`` beside its numbers: the timeline of a pipeline."""


@dataclass(frozen=True)
class LossGradient:
    """A task's loss and the gradient of the logits that it gives."""

    task: Learnt

    def __call__(self, logits: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """This worker's share of the loss, and its gradient ``[n, classes]``."""
        with torch.enable_grad():
            leaf = logits.detach().requires_grad_()
            loss = self.task.loss(leaf, epoch)
            (grad,) = torch.autograd.grad(loss, leaf)
        return loss.detach(), grad


def remembers(exchange: HaloExchange) -> bool:
    """Whether an exchange has a state, as with delta coding or delayed rows."""
    return exchange.policy.decay is not None or exchange.policy.freshness.delayed


def exchange_numbers(model: Model) -> list[int]:
    """The exchanges of a model."""
    numbers = (model.layer_number(block) for block in range(len(model.blocks)))
    return [number for number in numbers if number]


def exchanges_rows(peers: Transport, config: Config) -> bool:
    """Whether rows travel between parts."""
    return peers.size > 1 and config.freshness.mode != "never"
