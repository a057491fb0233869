"""The wire's policy from the settings: rates of every epoch, layer and direction, freshness, delta coding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from halowire.kernels import code_for
from halowire.training.config import Config, RateConfig
from halowire.training.layer_rates import fit_bits, layer_bits, layer_ratios
from halowire.training.rules import refuse
from halowire.training.wire_bytes import GradeCounts, StageLink, epoch_bytes, link_bytes
from halowire.wire import FORWARD, BaseBit, Budget, Freshness, Policy, Rate, exponential, linear, parse_steps, stepped

Ratios = Callable[[int], float]


def policy_of(
    config: Config,
    widths: Sequence[int],
    halo_rows: int,
    grades: GradeCounts | None = None,
    input_width: int = 0,
    links: Sequence[StageLink] = (),
) -> Policy:
    """The policy of a run that exchanges rows of ``widths`` columns (layers 1, 2, ...), ``halo_rows`` in each.

    ``halo_rows``: the halo rows of all workers; where they are sampled, those that travel in an epoch.
    ``grades``: how many of the halo rows each grade of a base has; only a budget of graded rows needs it.
    ``input_width``: columns of the raw features, which are layer 0 where they are sent in every epoch.
    ``links``: what crosses the borders of the stages. Without halo rows nothing else does: only the layers behind a
    border can have rates of their own.
    """
    rate, layers = config.rate, dict(enumerate(widths, 1))
    layers = {0: input_width} | layers if rate.resend_input else layers
    sent = {link.layer for link in links} if links and not halo_rows else set(layers)
    bits, own_ratios = layer_bits(rate, layers, sent), layer_ratios(rate, layers, sent)
    fresh = config.freshness
    refuse(config)
    bits = fit_bits(rate.bits, layers, rate.share) if rate.share else bits
    base = BaseBit(rate.bits, rate.base == "loss-per-second") if rate.base != "constant" else None

    def rate_at(ratio: float, layer: int, direction: str, epoch: int = 0) -> Rate:
        number = bits[layer, direction] if base is None else base.bits(epoch)
        code = rate.code if direction == FORWARD or not rate.backward_code else rate.backward_code
        return Rate(number, code_for(code, number), own_ratios.get(layer, ratio), rate.rows, rate.nodes == "degree")

    def cost(share: float) -> int:
        rates = partial(rate_at, _ratio(share))
        return epoch_bytes(rates, layers, halo_rows, grades) + link_bytes(rates, links)

    ratios = _ratios(rate, config.epochs, cost if (halo_rows and layers) or links else None)

    def rates(epoch: int, layer: int, direction: str) -> Rate:
        return rate_at(ratios(epoch), layer, direction, epoch)

    for place in bits:  # what cannot be is refused before any work is done
        rates(0, *place)
    delayed, adaptive = fresh.mode in ("delayed", "adaptive"), fresh.mode == "adaptive"
    freshness = Freshness(delayed, fresh.sync_every, fresh.smoothing, fresh.threshold, adaptive)
    decay = rate.decay if rate.decay >= 0 else None
    first = rate.columns == "first"
    return Policy(rates, freshness, config.seed, rate.rescale, decay, base, rate.resend_input, rate.gain, first)


def _ratios(rate: RateConfig, epochs: int, cost: Callable[[float], int] | None) -> Ratios:
    """The ratio of every epoch; ``cost`` are the bytes of an epoch in which a share of the columns travels."""
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
