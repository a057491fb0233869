"""One worker's view of a graph: everything that training or evaluation on one shard needs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.events import SETUP
from halowire.exchange import HaloExchange, Policy, Transport
from halowire.exchange.grades import by_base, grade_counts
from halowire.kernels import Csr
from halowire.nn import MODELS, Features, GraphModel, Propagation, Step
from halowire.nn.model import exchanged_widths
from halowire.partition import Shard
from halowire.train.config import Config, ModelConfig
from halowire.train.task import Task
from halowire.train.wire import policy_of


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
        exchange = HaloExchange(shard, transport, device, _policy(shard, config, transport))
        spread = Propagation.of(shard, MODELS[config.model.name].conv.normalisation, exchange, device)
        features = Features.of(shard, spread, exchange, device)
        return View(shard, spread, features, Task.of(shard, config.task.metric, device), shard.ids.to(device))

    def step(self, seed: int = 0, epoch: int = 0, training: bool = False) -> Step:
        """The context of one pass through the model."""
        return Step(self.spread, self.ids, seed, epoch, training)


def _policy(shard: Shard, config: Config, transport: Transport) -> Policy:
    features = shard.x
    width = 0 if features is None else features.num_cols if isinstance(features, Csr) else features.shape[1]
    widths = exchanged_widths(width, config.model.hidden, shard.num_classes, config.model.layers)
    halo_rows = transport.all_reduce(torch.tensor([shard.num_halo]), "reduction of the halo sizes", SETUP)
    grades = None
    if config.rate.nodes == "degree":
        grades = by_base(transport.all_reduce(grade_counts(shard), "reduction of the grades", SETUP))
    return policy_of(config, widths, int(halo_rows), grades, width)


def build_model(config: ModelConfig, num_features: int, num_classes: int, seed: int) -> GraphModel:
    """The model that the settings describe, with weights drawn from ``seed``."""
    return MODELS[config.name](
        num_features, config.hidden, num_classes, config.layers, config.dropout, config.norm, seed
    )
