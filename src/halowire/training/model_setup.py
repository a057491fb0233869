"""The settings are turned into a model and its wire: sizes, weights, the policy of every exchange, the bytes sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from halowire.events import SETUP
from halowire.layers import MODELS, Model, Shape
from halowire.partitioning import Shard
from halowire.training.config import Config, ModelConfig
from halowire.training.first_layer_choice import FIRST_EXCHANGE
from halowire.training.machine_choice import use_once
from halowire.training.rate_plan import BorderRows, GradeCounts, RatePlan, Traffic, by_layer, ratio_schedule
from halowire.training.row_age import freshness_of, sends_narrow
from halowire.training.rule import Situation
from halowire.training.rules import refuse
from halowire.training.squeeze_choice import squeezes
from halowire.wire import (
    BACKWARD,
    Policy,
    Rate,
    Transport,
    by_base,
    grade_counts,
    sample_size,
)  # fmt: skip


def sends_undropped(config: Config) -> bool:
    """Whether rows travel before dropout, where they are no products: their changes do, and late rows."""
    return config.rate.decay >= 0 or config.freshness.mode == "late-rows"


def build_model(config: ModelConfig, num_features: int, num_outputs: int, seed: int, narrow: bool = True) -> Model:
    """The model that the settings describe, with weights drawn from ``seed``."""
    return MODELS[config.name](shape_of(config, num_features, num_outputs, narrow), seed)


def shape_of(config: ModelConfig, num_features: int, num_outputs: int, narrow: bool = True) -> Shape:
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
        narrow,
    )


def travelling_widths(config: ModelConfig, num_features: int, num_outputs: int, narrow: bool = True) -> list[int]:
    """Number of columns of the rows that travel between parts, for every exchange of an epoch in one direction."""
    return MODELS[config.name].sent_widths(shape_of(config, num_features, num_outputs, narrow))


def output_width(config: Config, num_classes: int) -> int:
    """Number of columns of the model's output: one per class or value; for links, as many as hidden rows have."""
    return config.model.hidden if config.task.kind == "link" else num_classes


def policy_for(
    shard: Shard,
    config: Config,
    transport: Transport,
    num_features: int,
    links: Sequence[BorderRows] = (),
    cover: bool = False,
) -> Policy:
    """The policy of a shard's wire; ``transport`` joins the workers that exchange its halos, ``links`` join stages.

    ``cover``: partial sums travel in the place of halo rows.
    """
    outputs = output_width(config, shard.num_classes)
    refuse(config, Situation(outputs=outputs))
    widths = travelling_widths(config.model, num_features, outputs, sends_narrow(config))
    counts = shard.cover_counts() if cover else shard.recv_counts
    travelling = sum(sample_size(count, config.rate.rows) for count in counts)
    sums = sum(counts) - int(shard.cover().sum()) if cover and config.rate.sums else 0
    sizes = torch.tensor([travelling, sum(count > 0 for count in counts), sums])
    halo_rows, pairs, sums = transport.all_reduce(sizes, "reduction of the halo sizes", SETUP).tolist()
    grades = None
    if config.rate.nodes == "degree":
        grades = by_base(transport.all_reduce(grade_counts(shard), "reduction of the grades", SETUP))
    hidden = config.model.hidden
    policy = policy_of(config, widths, halo_rows, grades, num_features, links, pairs, sums, hidden)
    return replace(policy, cover=cover)


def policy_of(
    config: Config,
    widths: Sequence[int],
    halo_rows: int | Sequence[int],
    grades: GradeCounts | None = None,
    input_width: int = 0,
    links: Sequence[BorderRows] = (),
    pairs: int | Sequence[int] = 0,
    sums: int = 0,
    hidden: int = 0,
) -> Policy:
    """The policy of a run in which layers 1, 2, ... exchange rows of ``widths`` columns, ``halo_rows`` rows each.

    ``halo_rows`` counts the halo rows of all workers, for every layer if layers have halos of their own; where rows are
    sampled, only those that travel in an epoch.
    ``grades`` says how many halo rows each grade of a base has; only a budget of graded rows needs it.
    ``input_width`` is the number of columns of the raw features, which are layer 0 where every epoch sends them.
    ``links`` are the borders of the stages. Without halo rows, only rows that cross a border travel, so only the layers
    behind a border can have rates of their own. ``pairs`` counts the messages of one exchange, of all workers,
    ``sums`` those of the ``halo_rows`` that are partial sums. Rows of less than ``hidden`` columns are narrowed ones;
    0: rows that are narrower than the widest.
    """
    rate, layers = config.rate, dict(enumerate(widths, 1))
    layers = {0: input_width} | layers if rate.resend_input else layers
    if config.wire.first_layer == "local":
        layers.pop(FIRST_EXCHANGE, None)
    rows_of, pairs_of = by_layer(halo_rows, layers), by_layer(pairs, layers)
    any_halo = any(rows_of.values())
    refuse(config)
    narrowed = {layer for layer, width in enumerate(widths, 1) if layer in layers and width < (hidden or max(widths))}
    sent = {link.layer for link in links} if links and not any_halo else set(layers)
    plan = RatePlan.of(rate, layers, sent, narrowed)
    fresh = freshness_of(config, set(layers))
    traffic = Traffic(layers, rows_of, pairs_of, tuple(links), grades, fresh.sends(BACKWARD), sums)
    ratios = ratio_schedule(rate, config.epochs, partial(traffic.cost, plan) if any_halo or links else None)

    def rates(epoch: int, layer: int, direction: str) -> Rate:
        return plan.at(ratios(epoch), layer, direction, epoch)

    for place in plan.bits:  # an impossible rate is refused before any work is done
        rates(0, *place)
    return Policy(
        rates,
        fresh,
        config.seed,
        rate.rescale,
        decay=rate.decay if rate.decay >= 0 else None,
        base=plan.base,
        resend_input=rate.resend_input,
        gain=rate.gain,
        first_columns=rate.columns == "first",
        once_per_machine=use_once(config),
        squeezed=squeezes(config),
    )
