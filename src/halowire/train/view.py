"""One worker's view of a graph: everything that training or evaluation on one shard needs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.exchange import HaloExchange, Transport
from halowire.nn import MODELS, Features, GraphModel, Propagation, Step
from halowire.partition import Shard
from halowire.train.config import Config, ModelConfig
from halowire.train.task import Task


@dataclass(frozen=True, eq=False)
class View:
    """A shard made ready: normalised adjacency, prepared input features, labels."""

    shard: Shard
    spread: Propagation
    features: Features
    task: Task
    ids: Tensor

    @staticmethod
    def of(shard: Shard, config: Config, transport: Transport, device: torch.device) -> View:
        """Prepare ``shard``; its input features cross the wire here, once."""
        exchange = HaloExchange(shard, transport, device)
        spread = Propagation.of(shard, MODELS[config.model.name].conv.normalisation, exchange, device)
        features = Features.of(shard, spread, exchange, device)
        return View(shard, spread, features, Task.of(shard, config.task.metric, device), shard.ids.to(device))

    def step(self, seed: int = 0, epoch: int = 0, training: bool = False) -> Step:
        """The context of one pass through the model."""
        return Step(self.spread, self.ids, seed, epoch, training)


def build_model(config: ModelConfig, num_features: int, num_classes: int, seed: int) -> GraphModel:
    """The model that the settings describe, with weights drawn from ``seed``."""
    return MODELS[config.name](
        num_features, config.hidden, num_classes, config.layers, config.dropout, config.norm, seed
    )
