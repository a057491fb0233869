"""The wire's policy from the settings: rates of every epoch, layer and direction, freshness, delta coding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from halowire.exchange import BACKWARD, FORWARD, Freshness, Policy, Rate, codec_of
from halowire.exchange.schedule import Budget, exponential, linear, parse_steps, stepped
from halowire.kernels import InputError
from halowire.train.config import Config, RateConfig
from halowire.train.idle import idle_message, idle_settings

Ratios = Callable[[int], float]


def policy_of(config: Config, widths: Sequence[int], halo_rows: int) -> Policy:
    """The policy of a run that exchanges rows of ``widths`` columns (layers 1, 2, ...) for ``halo_rows`` halo rows."""
    _refuse(config)
    rate = config.rate
    ratios = _ratios(rate, config.epochs, widths, halo_rows)
    bits = _layer_bits(rate, len(widths))
    last = len(widths)

    def rates(epoch: int, layer: int, direction: str) -> Rate:
        ratio = 1.0 if rate.spare_last and layer == last else ratios(epoch)
        return Rate(bits[layer, direction == FORWARD], rate.code, ratio, rate.rows)

    for layer, forward in bits:  # what cannot be is refused before any work is done
        rates(0, layer, FORWARD if forward else BACKWARD)
    fresh = config.freshness
    freshness = Freshness(fresh.mode == "delayed", fresh.sync_every, fresh.smoothing, fresh.threshold)
    decay = rate.decay if rate.decay >= 0 else None
    return Policy(rates, freshness, config.seed, rate.rescale, decay)


def epoch_bytes(rate: Rate, widths: Sequence[int], halo_rows: int) -> int:
    """Halo bytes of one epoch, forward and backward, with one rate for everything."""
    codec = codec_of(rate)
    return 2 * round(rate.rows * halo_rows) * sum(codec.row_bytes(rate.columns(width)) for width in widths)


def _ratios(rate: RateConfig, epochs: int, widths: Sequence[int], halo_rows: int) -> Ratios:
    if rate.schedule == "constant":
        return lambda epoch: rate.ratio
    if rate.schedule == "linear":
        return lambda epoch: linear(epoch, epochs, rate.max_ratio, rate.min_ratio, rate.slope)
    if rate.schedule == "exponential":
        return lambda epoch: exponential(epoch, epochs, rate.max_ratio, rate.min_ratio)
    if rate.schedule == "steps":
        steps = parse_steps(rate.steps)
        return lambda epoch: stepped(epoch, steps)
    return _budget(rate, epochs, widths, halo_rows)


def _budget(rate: RateConfig, epochs: int, widths: Sequence[int], halo_rows: int) -> Ratios:
    if not halo_rows or not widths:
        return lambda epoch: 1.0

    def cost(share: float) -> int:
        ratio = 1 / max(share, 1e-9)
        dropped = [Rate(rate.bits, rate.code, 1.0 if rate.spare_last and w is widths[-1] else ratio) for w in widths]
        return sum(epoch_bytes(one, [width], halo_rows) for one, width in zip(dropped, widths, strict=True))

    budget = Budget.plan(rate.budget, epochs, cost)
    return lambda epoch: 1 / max(budget.shares[min(epoch, epochs - 1)], 1e-9)


def _layer_bits(rate: RateConfig, layers: int) -> dict[tuple[int, bool], int]:
    """Bits of every layer, forward (True) and backward (False)."""
    bits = {(layer, True): int(rate.bits) for layer in range(1, layers + 1)}
    bits |= {(layer, False): int(rate.backward_bits or rate.bits) for layer in range(1, layers + 1)}
    for part in filter(None, rate.layers.split(",")):
        name, _, value = part.partition(":")
        if not name.isdigit() or not value.isdigit() or not 1 <= int(name) <= layers:
            raise InputError(
                f"--rate.layers has {part!r}; give LAYER:BITS pairs with layers 1 to {layers}, such as 1:1,2:8"
            )
        bits[int(name), True] = bits[int(name), False] = int(value)
    return bits


def _refuse(config: Config) -> None:
    """Refuse what has no meaning together, and what would silently have no effect."""
    rate, freshness = config.rate, config.freshness
    if rate.rows < 1 and rate.decay >= 0:
        raise InputError("--rate.rows and --rate.decay do not go together: the change of a row not sent is unknown")
    if rate.rows < 1 and freshness.smoothing:
        raise InputError("--rate.rows and --freshness.smoothing do not go together: every epoch samples other rows")
    for name, reason in idle_settings(config).items():
        raise InputError(f"{idle_message(name, reason)}; leave it out")
