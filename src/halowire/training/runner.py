"""A runner is what the training loop drives: one worker's part of a model on its part of a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from halowire.layers import Model
from halowire.partitioning import Shard
from halowire.schedules import Complete, Watch
from halowire.training.config import Config
from halowire.training.savings import Savings
from halowire.training.task import Learnt
from halowire.wire import HaloExchange, HaloExchanges, Transport


class Runner(ABC):
    """One worker's part of a model on its part of a graph.

    Attributes:
        model: the whole model.
        parameters: the parameters of the model that this worker trains, by name.
        shard: the shard that is evaluated; ``task`` holds its labels (no rows where this worker has no logits).
        peers: the workers that train the same parameters; ``line``: the workers that train the model's other
            parameters on the same part.
        exchange: the exchange that carries the halo rows while training.
        one_backward: whether an epoch has one backward pass, after which every gradient is complete.
        row_weights: names of those parameters that have a row for each node, of which this worker trains its own.
        split: how many blocks of the model every stage has; empty where there are no stages.
        savings: what the run need not send, as was chosen.
    """

    model: nn.Module
    parameters: dict[str, nn.Parameter]
    shard: Shard
    num_features: int
    task: Learnt
    peers: Transport
    line: Transport | None = None
    exchange: HaloExchange | HaloExchanges
    one_backward: bool = True
    row_weights: frozenset[str] = frozenset()
    split: tuple[int, ...] = ()
    savings: Savings = Savings()

    @abstractmethod
    def forward_backward(self, epoch: int, complete: Complete) -> Tensor:
        """Run one pass forward and backward; return this worker's share of the loss."""

    @abstractmethod
    def logits(self) -> Tensor:
        """Logits of the rows of ``task``, evaluated exactly: float32, fresh, nothing dropped."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What the start event says about this run, such as how the exchange of every layer is hidden."""

    @abstractmethod
    def watched(self, watch: Watch) -> AbstractContextManager[None]:
        """Let passes inside the block show ``watch`` what they compute."""

    @property
    def device(self) -> torch.device:
        """The device on which this worker computes."""
        return self.exchange.device

    @property
    def remembers(self) -> bool:
        """Whether the next epoch depends on more than the weights, as it does with delta coding or delayed rows."""
        return self.exchange.policy.decay is not None or self.exchange.policy.freshness.delayed

    def state(self) -> dict[str, Tensor]:
        """What the next epoch depends on beside the weights: the state of the exchange."""
        return self.exchange.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from what :meth:`state` returned."""
        self.exchange.load_state(state)

    def whole_rows(self, name: str, value: Tensor) -> Tensor:
        """``value``, which belongs to the rows of ``name`` in ``row_weights``, with all workers' rows; all call it."""
        return value

    def own_rows(self, name: str, value: Tensor) -> Tensor:
        """This worker's rows of ``value``, as `whole_rows` gave it."""
        return value

    def forget(self) -> None:
        """Forget what :meth:`state` holds; the next epoch uses its own rows, as a synchronous one does."""
        self.exchange.forget()

    def start_afresh(self, epoch: int, seed: int) -> None:
        """Begin in ``epoch``, on another shard than before, without anything that :meth:`state` held."""
        self.forget()

    def events(self, epoch: int) -> dict[str, Any] | None:
        """What the event log records of ``epoch`` beside its numbers, such as the timeline of a pipeline."""
        return None


def loss_gradient(task: Learnt, logits: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
    """This worker's share of the loss of ``logits`` ``[n, classes]``, and its gradient in the same shape."""
    with torch.enable_grad():
        leaf = logits.detach().requires_grad_()
        loss = task.loss(leaf, epoch)
        (grad,) = torch.autograd.grad(loss, leaf)
    return loss.detach(), grad


def overlap_of(model: Model, peers: Transport, config: Config, words: str) -> dict[str, str]:
    """``words``, which say how an exchange is hidden, for every exchange of ``model``; empty where no rows travel."""
    if peers.size == 1 or config.freshness.mode == "never":
        return {}
    numbers = (model.layer_number(block) for block in range(len(model.blocks)))
    return {str(number): words for number in numbers if number}
