"""Refusals of the wire: settings that have no meaning together."""

from __future__ import annotations

import math

from halowire.errors import InputError
from halowire.training.config import Config, FreshnessConfig, RateConfig
from halowire.training.idle import idle_message, idle_settings
from halowire.wire import BASES, parse_steps


def refuse_wire(config: Config) -> None:
    """Refuse what cannot be, and what :func:`idle_settings` finds."""
    rate, freshness = config.rate, config.freshness
    if rate.rows < 1 and rate.decay >= 0:
        raise InputError("--rate.rows and --rate.decay do not go together: the change of a row not sent is unknown")
    if rate.rows < 1 and freshness.smoothing:
        raise InputError("--rate.rows and --freshness.smoothing do not go together: every epoch samples other rows")
    if rate.nodes == "degree" and rate.decay >= 0:
        raise InputError(
            "--rate.nodes degree and --rate.decay do not go together: a row has other bits for other peers, so its "
            "owner would need a reconstruction for each of them"
        )
    if rate.rescale and rate.decay >= 0:
        raise InputError(
            "--rate.rescale and --rate.decay do not go together: a reconstruction keeps the columns that do not "
            "travel, so there is nothing to make up for; leave one out"
        )
    if rate.rescale and rate.columns == "first":
        raise InputError(
            "--rate.rescale and --rate.columns first do not go together: the other columns never travel, and larger "
            "values do not stand for them; leave one out"
        )
    _refuse_base(rate, freshness)
    _refuse_schedule(rate)
    if rate.share:
        _refuse_share(rate)
    for name, reason in idle_settings(config).items():
        raise InputError(f"{idle_message(name, reason)}; leave it out")


def refuse_idle_changes(config: Config, outputs: int) -> None:
    """Refuse delta coding where all rows that travel are products with narrowing weights, which travel as they are.

    The recipe `halowire` has other parts, and goes on without this one.
    """
    model, decay = config.model, config.rate.decay
    products = model.name in ("gcn", "sage") and config.mesh == Config().mesh and model.layers == 2
    if decay >= 0 and products and outputs < model.hidden and config.recipe != "halowire":
        raise InputError(
            f"--rate.decay {decay:g} has no effect: of 2 layers, only the products with the narrowing weights of the "
            f"last one travel, {outputs} columns instead of {model.hidden}, and those as they are; leave it out "
            "(instead of the recipe delta, use two-levels)"
        )


def refuse_codec(config: Config) -> None:
    """Refuse what would decide on the bits of a value beside a codec of one's own."""
    rate, default = config.rate, RateConfig()
    for name in ("bits", "backward_bits", "share", "base", "nodes", "layers"):
        if getattr(rate, name) != getattr(default, name):
            raise InputError(
                f"a codec of one's own decides on the bits of a value, and so does --rate.{name.replace('_', '-')} "
                f"{getattr(rate, name)}; drop one, or use a recipe that sends float32 (exact, pipegcn, varco, bns)"
            )
    if rate.schedule == "budget":
        raise InputError("--rate.schedule budget cannot plan with a codec of one's own; use another schedule")


def _refuse_base(rate: RateConfig, freshness: FreshnessConfig) -> None:
    """Refuse what does not go with a base bit that the losses decide, or needs one."""
    if rate.base == "constant":
        if freshness.mode == "adaptive":
            raise InputError("--freshness.mode adaptive follows the bits: add --rate.base loss, or use delayed")
        return
    if rate.bits not in BASES:
        raise InputError(f"--rate.base {rate.base} starts from 1, 2, 4 or 8 bits, not {rate.bits}; set --rate.bits")
    if rate.schedule == "budget":
        raise InputError(f"--rate.schedule budget cannot plan with --rate.base {rate.base}: its bits are not known yet")


def _refuse_schedule(rate: RateConfig) -> None:
    """Refuse ratios that no epoch could have, and those that would rise."""
    if rate.schedule in ("linear", "exponential") and not 1 <= rate.min_ratio <= rate.max_ratio < math.inf:
        raise InputError(
            f"--rate.max-ratio is {rate.max_ratio:g} and --rate.min-ratio {rate.min_ratio:g}; the ratio falls from the "
            "first to the second, so they must satisfy 1 <= min <= max < infinity"
        )
    if rate.schedule == "linear" and not 0 < rate.slope < math.inf:
        raise InputError(f"--rate.slope is {rate.slope:g}; it must be above 0 and finite, such as 5")
    if rate.schedule == "steps":
        parse_steps(rate.steps)


def _refuse_share(rate: RateConfig) -> None:
    """Refuse what would decide on the bits of a layer a second time."""
    if not 0 < rate.share <= 1:
        raise InputError(f"--rate.share is {rate.share}; it must lie in 0 < s <= 1, such as 0.05")
    if rate.bits not in BASES:
        raise InputError(f"--rate.share starts from 1, 2, 4 or 8 bits, not {rate.bits}; set --rate.bits 1")
    others = {
        "layers": bool(rate.layers),
        "backward-bits": bool(rate.backward_bits),
        "base": rate.base != "constant",
        "nodes": rate.nodes != "alike",
    }
    for name, given in others.items():
        if given:
            raise InputError(
                f"--rate.share and --rate.{name} both decide on the bits of a row; drop one (--rate.share 0 turns off "
                "that of a recipe)"
            )
