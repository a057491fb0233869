"""Runners: what the training loop drives. One runs graph parallelism boundary first, the other the pipeline."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from halowire.events import EVAL
from halowire.layers import GraphModel
from halowire.partitioning import Shard
from halowire.training.config import Config
from halowire.training.task import Learnt
from halowire.training.view import View, build_model, output_width
from halowire.wire import HaloExchange, Transport


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

    def forward_backward(self, epoch: int) -> Tensor:
        """One pass forward and backward; this worker's share of the loss."""

    def logits(self) -> Tensor:
        """Logits of the rows of ``task``, evaluated exactly."""

    @property
    def remembers(self) -> bool:
        """Whether the next epoch depends on more than the weights."""

    def state(self) -> dict[str, Tensor]:
        """That more."""

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from :meth:`state`."""

    def facts(self) -> dict[str, Any]:
        """What the start event tells of this run: how the exchange of every layer is hidden."""

    def events(self, epoch: int) -> dict[str, Any] | None:
        """What is to be told of ``epoch`` beside its numbers: the timeline of a pipeline."""


class OneStage:
    """What runners of one stage share: their exchange alone remembers, and there is no timeline."""

    exchange: HaloExchange
    line: Transport | None = None
    one_backward = True
    split: tuple[int, ...] = ()

    @property
    def remembers(self) -> bool:
        """The exchange does, with delta coding or delayed rows."""
        return self.exchange.policy.decay is not None or self.exchange.policy.freshness.delayed

    def state(self) -> dict[str, Tensor]:
        """That of the exchange."""
        return self.exchange.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        """That of the exchange."""
        self.exchange.load_state(state)

    def events(self, epoch: int) -> dict[str, Any] | None:
        """Nothing more."""
        return None


class GraphParallel(OneStage):
    """GCN, GraphSAGE and GAT on every worker's own part, boundary rows first."""

    def __init__(self, train: View, evaluation: View, config: Config, transport: Transport) -> None:
        """``train`` and ``evaluation`` are one view unless the training is inductive."""
        self._train, self._evaluation, self._config = train, evaluation, config
        self._ledger = transport.ledger
        self.peers, self.shard, self.task = transport, evaluation.shard, evaluation.task
        width = train.features.own.num_cols
        outputs = output_width(config, train.shard.num_classes)
        self.model = build_model(config.model, width, outputs, config.seed).to(train.ids.device)
        self.parameters = dict(self.model.named_parameters())
        self.exchange, self.num_features = train.spread.exchange, width

    def forward_backward(self, epoch: int) -> Tensor:
        """By autograd, through the blocks of the model."""
        with self._ledger.phase("forward"):
            logits = self.model(self._train.features, self._train.step(self._config.seed, epoch, training=True))
            loss = self._train.task.loss(logits, epoch)
        with self._ledger.phase("backward"):
            loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def logits(self) -> Tensor:
        """float32, fresh, nothing dropped."""
        with torch.no_grad(), self._ledger.account(EVAL):
            out: Tensor = self.model(self._evaluation.features, self._evaluation.step())
        return out

    def facts(self) -> dict[str, Any]:
        """Layers run boundary first; the share of the rows that need nothing from other workers."""
        spread, alone = self._train.spread, self.peers.size == 1 or self._config.freshness.mode == "never"
        assert isinstance(self.model, GraphModel)
        overlap = {} if alone else self.model.overlap()
        return {"overlap": overlap, "interior_share": 1 - spread.head / max(1, spread.inner.num_rows)}
