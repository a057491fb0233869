"""The settings are turned into a model and its wire: sizes, weights, the policy of every exchange, the bytes sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from halowire.events import SETUP
from halowire.kernels import code_for
from halowire.layers import MODELS, Model, Shape
from halowire.partitioning import Shard
from halowire.training.config import Config, ModelConfig, RateConfig
from halowire.training.cover_choice import use_cover
from halowire.training.layer_rates import fit_bits, layer_bits, layer_ratios
from halowire.training.rule import Situation
from halowire.training.rules import refuse
from halowire.wire import (
    BACKWARD,
    FORWARD,
    HEADER_BYTES,
    BaseBit,
    Budget,
    Freshness,
    Policy,
    Rate,
    Transport,
    by_base,
    codec_of,
    exponential,
    grade_bits,
    grade_counts,
    linear,
    parse_steps,
    sample_size,
    stepped,
)  # fmt: skip

FIRST_EXCHANGE = 1
"""The number of the first layer that exchanges rows."""
LayerRate = Callable[[int, str], Rate]
"""The rate of a layer and a direction."""
GradeCounts = Mapping[int, tuple[int, ...]]
"""For every base of bits by degree, how many halo rows have each of its grades."""


@dataclass(frozen=True)
class BorderRows:
    """The border of two stages: ``rows`` rows of ``width`` columns enter ``layer`` in every epoch, and return.

    They cross it in this number of ``messages``.
    """

    layer: int
    width: int
    rows: int
    messages: int = 0


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
    """Number of columns of the rows that travel between parts, for every exchange of an epoch in one direction."""
    return MODELS[config.name].sent_widths(shape_of(config, num_features, num_outputs))


def output_width(config: Config, num_classes: int) -> int:
    """Number of columns of the model's output: one per class or value; for links, as many as hidden rows have."""
    return config.model.hidden if config.task.kind == "link" else num_classes


def policy_for(
    shard: Shard,
    config: Config,
    transport: Transport,
    num_features: int,
    links: Sequence[BorderRows] = (),
    whole: bool = False,
) -> Policy:
    """The policy of a shard's wire; ``transport`` joins the workers that exchange its halos, ``links`` join stages.

    ``whole``: all halo rows travel together, so that partial sums can travel in their place.
    """
    outputs = output_width(config, shard.num_classes)
    refuse(config, Situation(outputs=outputs))
    widths = travelling_widths(config.model, num_features, outputs)
    cover = whole and use_cover(shard, config, transport)
    counts = shard.cover_counts() if cover else shard.recv_counts
    travelling = sum(sample_size(count, config.rate.rows) for count in counts)
    sizes = torch.tensor([travelling, sum(count > 0 for count in counts)])
    halo_rows, pairs = transport.all_reduce(sizes, "reduction of the halo sizes", SETUP).tolist()
    grades = None
    if config.rate.nodes == "degree":
        grades = by_base(transport.all_reduce(grade_counts(shard), "reduction of the grades", SETUP))
    return replace(policy_of(config, widths, halo_rows, grades, num_features, links, pairs), cover=cover)


def policy_of(
    config: Config,
    widths: Sequence[int],
    halo_rows: int,
    grades: GradeCounts | None = None,
    input_width: int = 0,
    links: Sequence[BorderRows] = (),
    pairs: int = 0,
) -> Policy:
    """The policy of a run in which layers 1, 2, ... exchange rows of ``widths`` columns, ``halo_rows`` rows each.

    ``halo_rows`` counts the halo rows of all workers; where rows are sampled, only those that travel in an epoch.
    ``grades`` says how many halo rows each grade of a base has; only a budget of graded rows needs it.
    ``input_width`` is the number of columns of the raw features, which are layer 0 where every epoch sends them.
    ``links`` are the borders of the stages. Without halo rows, only rows that cross a border travel, so only the layers
    behind a border can have rates of their own. ``pairs`` counts the messages of one exchange, of all workers.
    """
    rate, layers = config.rate, dict(enumerate(widths, 1))
    layers = {0: input_width} | layers if rate.resend_input else layers
    if config.wire.first_layer == "local":
        layers.pop(FIRST_EXCHANGE, None)
    sent = {link.layer for link in links} if links and not halo_rows else set(layers)
    bits = layer_bits(rate, layers, sent)
    own_ratios = layer_ratios(rate, layers, sent)
    refuse(config)
    if rate.share:
        bits = fit_bits(rate.bits, layers, rate.share)
    base = BaseBit(rate.bits, rate.base == "loss-per-second") if rate.base != "constant" else None

    def rate_at(ratio: float, layer: int, direction: str, epoch: int = 0) -> Rate:
        number = bits[layer, direction] if base is None else base.bits(epoch)
        code = rate.code if direction == FORWARD or not rate.backward_code else rate.backward_code
        return Rate(number, code_for(code, number), own_ratios.get(layer, ratio), rate.rows, rate.nodes == "degree")

    def cost(share: float) -> int:
        rates = partial(rate_at, _ratio(share))
        halo = epoch_bytes(rates, layers, halo_rows, grades)
        # Between stages every row travels, forward and backward.
        stages = sum(epoch_bytes(rates, {link.layer: link.width}, link.rows) for link in links)
        exchanges = sum(2 if layer > 0 else 1 for layer in layers)
        return halo + stages + HEADER_BYTES * (pairs * exchanges + 2 * sum(link.messages for link in links))

    ratios = _ratios(rate, config.epochs, cost if (halo_rows and layers) or links else None)

    def rates(epoch: int, layer: int, direction: str) -> Rate:
        return rate_at(ratios(epoch), layer, direction, epoch)

    for place in bits:  # an impossible rate is refused before any work is done
        rates(0, *place)
    fresh = config.freshness
    adaptive = fresh.mode == "adaptive"
    delayed = adaptive or fresh.mode == "delayed"
    return Policy(
        rates,
        Freshness(delayed, fresh.sync_every, fresh.smoothing, fresh.threshold, adaptive),
        config.seed,
        rate.rescale,
        decay=rate.decay if rate.decay >= 0 else None,
        base=base,
        resend_input=rate.resend_input,
        gain=rate.gain,
        first_columns=rate.columns == "first",
    )


def _ratios(rate: RateConfig, epochs: int, cost: Callable[[float], int] | None) -> Callable[[int], float]:
    """The ratio of every epoch; ``cost(share)`` is the bytes of an epoch in which that share of the columns travels."""
    if rate.schedule == "constant":
        return lambda epoch: rate.ratio
    if rate.schedule == "linear":
        return lambda epoch: linear(epoch, epochs, rate.max_ratio, rate.min_ratio, rate.slope)
    if rate.schedule == "exponential":
        return lambda epoch: exponential(epoch, epochs, rate.max_ratio, rate.min_ratio)
    if rate.schedule == "steps":
        steps = parse_steps(rate.steps)
        return lambda epoch: stepped(epoch, steps)
    if cost is None:
        return lambda epoch: 1.0
    budget = Budget.plan(rate.budget, epochs, cost)
    return lambda epoch: _ratio(budget.shares[min(epoch, epochs - 1)])


def _ratio(share: float) -> float:
    return 1 / max(share, 1e-9)


def epoch_bytes(rates: LayerRate, widths: Mapping[int, int], halo_rows: int, grades: GradeCounts | None = None) -> int:
    """Bytes that all workers send in one epoch, forward and backward.

    ``widths`` are the columns of every layer that exchanges rows, ``halo_rows`` the halo rows of all workers that
    travel, ``grades`` how many of them each grade of a base has (needed for graded rates). The columns of a backward
    message are those of the forward one.
    """
    total = 0
    for layer, width in widths.items():
        forward = rates(layer, FORWARD)
        columns = forward.columns(width)
        # Layer 0 holds the raw features, which have no gradient.
        for rate in (forward, rates(layer, BACKWARD)) if layer > 0 else (forward,):
            total += _message_bytes(rate, columns, halo_rows, grades)
    return total


def _message_bytes(rate: Rate, columns: int, rows: int, grades: GradeCounts | None) -> int:
    if not rate.graded:
        return rows * codec_of(rate).row_bytes(columns)
    if grades is None:
        raise ValueError("the bytes of a graded rate depend on the rows of every grade")
    parts = zip(grade_bits(rate.bits), grades[rate.bits], strict=True)
    return sum(count * codec_of(Rate(bits)).row_bytes(columns) for bits, count in parts)
