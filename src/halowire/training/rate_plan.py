"""The rates of a run: those of every epoch, layer and direction, and the bytes that an epoch at them sends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from halowire.kernels import code_for
from halowire.training.config import RateConfig
from halowire.training.layer_rates import LayerBits, fit_bits, layer_bits, layer_codes, layer_ratios
from halowire.wire import (
    BACKWARD,
    FORWARD,
    HEADER_BYTES,
    BaseBit,
    Budget,
    Rate,
    codec_of,
    exponential,
    grade_bits,
    linear,
    parse_steps,
    stepped,
)

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


@dataclass(frozen=True, eq=False)
class RatePlan:
    """The rate of every layer and direction, but for the ratio of columns that a schedule changes.

    Attributes:
        rate: the settings.
        bits: bits by (layer, direction), where they do not follow the loss.
        codes: the code by (layer, direction), where the bits take it.
        ratios: the ratios of the layers that have one of their own.
        base: the bits that follow the loss; None: they do not.
    """

    rate: RateConfig
    bits: LayerBits
    codes: Mapping[tuple[int, str], str]
    ratios: Mapping[int, float]
    base: BaseBit | None

    @staticmethod
    def of(
        rate: RateConfig, layers: Mapping[int, int], sent: Collection[int], narrowed: Collection[int] = ()
    ) -> RatePlan:
        """The plan for rows of ``layers[l]`` columns in layer ``l``; only layers that are ``sent`` may be named.

        ``narrowed`` are the layers that multiply their rows by narrowing weights before they travel.
        """
        bits = layer_bits(rate, layers, sent, narrowed)
        ratios = layer_ratios(rate, layers, sent)
        if rate.share:
            bits = fit_bits(rate.bits, layers, rate.share)
        base = BaseBit(rate.bits, rate.base == "loss-per-second") if rate.base != "constant" else None
        return RatePlan(rate, bits, layer_codes(rate, layers, narrowed), ratios, base)

    def at(self, ratio: float, layer: int, direction: str, epoch: int = 0) -> Rate:
        """The rate of a message of ``epoch``, whose schedule says ``ratio``."""
        rate = self.rate
        number = self.bits[layer, direction] if self.base is None else self.base.bits(epoch)
        code = self.codes[layer, direction]
        ratio = self.ratios.get(layer, ratio)
        # The gradient of a sum has no larger error than those of rows (`bench/code_error`).
        sums = rate.sums if direction == FORWARD and number < rate.sums else 0
        return Rate(number, code_for(code, number), ratio, rate.rows, rate.nodes == "degree", sums)


@dataclass(frozen=True, eq=False)
class Traffic:
    """What travels in every epoch, of all workers.

    Attributes:
        layers: columns of the rows of every layer that exchanges rows.
        halo_rows: halo rows that travel in every layer, in one direction.
        pairs: messages of the exchange of every layer, in one direction.
        links: the borders of the stages.
        grades: how many halo rows each grade of a base has; only graded rates need it.
        returns: whether gradients of halo rows travel.
        sums: how many of the halo rows are partial sums.
    """

    layers: Mapping[int, int]
    halo_rows: Mapping[int, int]
    pairs: Mapping[int, int]
    links: tuple[BorderRows, ...]
    grades: GradeCounts | None
    returns: bool = True
    sums: int = 0

    def cost(self, plan: RatePlan, share: float) -> int:
        """Bytes of an epoch in which this ``share`` of the columns travels."""
        rates = partial(plan.at, _ratio(share))
        rows = self.halo_rows
        halo = sum(
            epoch_bytes(rates, {at: width}, rows[at], self.grades, self.returns, self.sums)
            for at, width in self.layers.items()
        )
        # Between stages every row travels, forward and backward.
        stages = sum(epoch_bytes(rates, {link.layer: link.width}, link.rows) for link in self.links)
        messages = sum((2 if layer > 0 and self.returns else 1) * self.pairs[layer] for layer in self.layers)
        return halo + stages + HEADER_BYTES * (messages + 2 * sum(link.messages for link in self.links))


def by_layer(counts: int | Sequence[int], layers: Mapping[int, int]) -> dict[int, int]:
    """``counts`` for every layer: one number for all, or one for each of the layers 1, 2, ..."""
    if isinstance(counts, int):
        return dict.fromkeys(layers, counts)
    # The raw features, layer 0, are read through the halo of the first layer.
    return {layer: counts[max(layer - 1, 0)] for layer in layers} if counts else dict.fromkeys(layers, 0)


def ratio_schedule(rate: RateConfig, epochs: int, cost: Callable[[float], int] | None) -> Callable[[int], float]:
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


def epoch_bytes(
    rates: LayerRate,
    widths: Mapping[int, int],
    halo_rows: int,
    grades: GradeCounts | None = None,
    returns: bool = True,
    sums: int = 0,
) -> int:
    """Bytes that all workers send in one epoch, forward and, where gradients return, backward.

    ``widths`` are the columns of every layer that exchanges rows, ``halo_rows`` the halo rows of all workers that
    travel, ``grades`` how many of them each grade of a base has (needed for graded rates), ``sums`` how many of them
    are partial sums. The columns of a backward message are those of the forward one.
    """
    total = 0
    for layer, width in widths.items():
        forward = rates(layer, FORWARD)
        columns = forward.columns(width)
        # Layer 0 holds the raw features, which have no gradient.
        for rate in (forward, rates(layer, BACKWARD)) if layer > 0 and returns else (forward,):
            total += _message_bytes(rate, columns, halo_rows, grades, sums)
    return total


def _message_bytes(rate: Rate, columns: int, rows: int, grades: GradeCounts | None, sums: int) -> int:
    if not rate.graded:
        finer = sums * codec_of(rate.of_sums()).row_bytes(columns)
        return (rows - sums) * codec_of(rate).row_bytes(columns) + finer
    if grades is None:
        raise ValueError("the bytes of a graded rate depend on the rows of every grade")
    parts = zip(grade_bits(rate.bits), grades[rate.bits], strict=True)
    return sum(count * codec_of(Rate(bits)).row_bytes(columns) for bits, count in parts)
