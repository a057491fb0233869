"""One worker's view of a graph: everything that training or evaluation on one shard needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from halowire.events import SETUP
from halowire.layers import GAT, MODELS, Attention, Features, GraphModel, Propagation, Step
from halowire.layers.deep import DEEP_MODELS, DeepModel
from halowire.layers.model import exchanged_widths
from halowire.partitioning import Shard
from halowire.training.config import Config, ModelConfig
from halowire.training.refuse_wire import refuse_idle_changes
from halowire.training.task import Learnt, Task
from halowire.training.wire import policy_of
from halowire.training.wire_bytes import StageLink
from halowire.wire import HaloExchange, Policy, Transport, by_base, grade_counts, sample_size


@dataclass(frozen=True, eq=False)
class View:
    """A shard made ready: normalised adjacency, prepared input features, labels."""

    shard: Shard
    spread: Propagation
    features: Features
    task: Learnt
    ids: Tensor

    @staticmethod
    def of(
        shard: Shard, config: Config, transport: Transport, device: torch.device, task: Learnt | None = None
    ) -> View:
        """Prepare ``shard``; its input features cross the wire here, once. ``task``: by default that of its labels."""
        exchange = HaloExchange(shard, transport, device, policy_for(shard, config, transport, shard.num_features))
        model = MODELS[config.model.name]
        if model is GAT:
            spread: Propagation = Attention.over(shard, exchange, device)
        else:
            spread = Propagation.of(shard, model.conv.normalisation, exchange, device)
        features = Features.of(shard, spread, exchange, device)
        return View(shard, spread, features, task or Task.of(shard, config.task, device), shard.ids.to(device))

    def step(self, seed: int = 0, epoch: int = 0, training: bool = False) -> Step:
        """The context of one pass through the model."""
        return Step(self.spread, self.ids, seed, epoch, training)


def policy_for(
    shard: Shard, config: Config, transport: Transport, num_features: int, links: Sequence[StageLink] = ()
) -> Policy:
    """The policy of a shard's wire; ``transport`` goes to the workers that share its halos, ``links`` join stages."""
    outputs = output_width(config, shard.num_classes)
    refuse_idle_changes(config, outputs)
    widths = travelling_widths(config.model, num_features, outputs)
    travelling = sum(sample_size(count, config.rate.rows) for count in shard.recv_counts)
    halo_rows = transport.all_reduce(torch.tensor([travelling]), "reduction of the halo sizes", SETUP)
    grades = None
    if config.rate.nodes == "degree":
        grades = by_base(transport.all_reduce(grade_counts(shard), "reduction of the grades", SETUP))
    return policy_of(config, widths, int(halo_rows), grades, num_features, links)


def travelling_widths(config: ModelConfig, num_features: int, num_classes: int) -> list[int]:
    """Columns of the rows that travel between parts in every exchange of an epoch, each way."""
    if config.name in DEEP_MODELS:
        return [config.hidden] * config.layers
    return exchanged_widths(num_features, config.hidden, num_classes, config.layers, heads_of(config))


def heads_of(config: ModelConfig) -> int:
    """Heads of attention; 1 for models without."""
    return config.heads if config.name == "gat" else 1


def output_width(config: Config, num_classes: int) -> int:
    """Columns of the model's output: one per class or value; for links rows as wide as the hidden ones."""
    return config.model.hidden if config.task.kind == "link" else num_classes


def build_model(config: ModelConfig, num_features: int, num_classes: int, seed: int) -> GraphModel | DeepModel:
    """The model that the settings describe, with weights drawn from ``seed``."""
    if config.name in DEEP_MODELS:
        return DEEP_MODELS[config.name](
            num_features, config.hidden, num_classes, config.layers, config.dropout, config.norm, seed
        )
    norm = "layer" if config.norm == "auto" else config.norm
    return MODELS[config.name](
        num_features,
        config.hidden,
        num_classes,
        config.layers,
        config.dropout,
        norm,
        seed,
        config.residual,
        heads_of(config),
    )
