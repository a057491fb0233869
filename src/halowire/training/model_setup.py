"""The model and the wire's policy from the settings."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from halowire.events import SETUP
from halowire.layers import MODELS, Model, Shape
from halowire.partitioning import Shard
from halowire.training.config import Config, ModelConfig
from halowire.training.rules import refuse
from halowire.training.situation import Situation
from halowire.training.wire import policy_of
from halowire.training.wire_bytes import StageLink
from halowire.wire import Policy, Transport, by_base, grade_counts, sample_size


def build_model(config: ModelConfig, num_features: int, num_outputs: int, seed: int) -> Model:
    """The model that the settings describe, with weights drawn from ``seed``."""
    return MODELS[config.name](shape_of(config, num_features, num_outputs), seed)


def shape_of(config: ModelConfig, num_features: int, num_outputs: int) -> Shape:
    """The sizes of the model that the settings describe."""
    return Shape(
        num_features,
        config.hidden,
        num_outputs,
        config.layers,
        config.dropout,
        config.norm,
        config.residual,
        config.heads,
    )


def travelling_widths(config: ModelConfig, num_features: int, num_outputs: int) -> list[int]:
    """Columns of the rows that travel between parts in every exchange of an epoch, each way."""
    return MODELS[config.name].sent_widths(shape_of(config, num_features, num_outputs))


def output_width(config: Config, num_classes: int) -> int:
    """Columns of the model's output: one per class or value; for links rows as wide as the hidden ones."""
    return config.model.hidden if config.task.kind == "link" else num_classes


def policy_for(
    shard: Shard, config: Config, transport: Transport, num_features: int, links: Sequence[StageLink] = ()
) -> Policy:
    """The policy of a shard's wire; ``transport`` goes to the workers that share its halos, ``links`` join stages."""
    outputs = output_width(config, shard.num_classes)
    refuse(config, Situation(outputs=outputs))
    widths = travelling_widths(config.model, num_features, outputs)
    travelling = sum(sample_size(count, config.rate.rows) for count in shard.recv_counts)
    halo_rows = transport.all_reduce(torch.tensor([travelling]), "reduction of the halo sizes", SETUP)
    grades = None
    if config.rate.nodes == "degree":
        grades = by_base(transport.all_reduce(grade_counts(shard), "reduction of the grades", SETUP))
    return policy_of(config, widths, int(halo_rows), grades, num_features, links)
