"""Refusals of the wire: settings that have no meaning together, or would silently have no effect."""

from __future__ import annotations

from halowire.exchange.grades import BASES
from halowire.kernels import InputError
from halowire.train.config import FreshnessConfig, RateConfig


def refuse_wire(rate: RateConfig, freshness: FreshnessConfig, bits: set[int], own_ratios: set[float]) -> None:
    """Refuse what cannot be; ``bits`` and ``own_ratios`` are those of all layers and directions."""
    if rate.rows < 1 and rate.decay >= 0:
        raise InputError("--rate.rows and --rate.decay do not go together: the change of a row not sent is unknown")
    if rate.rows < 1 and freshness.smoothing:
        raise InputError("--rate.rows and --freshness.smoothing do not go together: every epoch samples other rows")
    if rate.nodes == "degree" and rate.decay >= 0:
        raise InputError(
            "--rate.nodes degree and --rate.decay do not go together: a row has other bits for other peers, so its "
            "owner would need a reconstruction for each of them"
        )
    _refuse_base(rate, freshness)
    bits = bits if rate.base == "constant" else {1, 2, 4, 8}
    if rate.nodes == "degree" and bits == {8}:
        raise InputError("--rate.nodes degree has no effect on 8 bits, the most of any grade; use a base of 1, 2 or 4")
    if freshness.mode == "never" and rate != RateConfig(weights=rate.weights):
        raise InputError("--rate settings have no effect with --freshness.mode never, which sends no rows")
    _refuse_idle(rate, bits, own_ratios)


def _refuse_base(rate: RateConfig, freshness: FreshnessConfig) -> None:
    """Refuse what does not go with a base bit that the losses decide, or needs one."""
    if rate.base == "constant":
        if freshness.mode == "adaptive":
            raise InputError("--freshness.mode adaptive follows the bits: add --rate.base loss, or use delayed")
        return
    if rate.bits not in BASES:
        raise InputError(f"--rate.base {rate.base} starts from 1, 2, 4 or 8 bits, not {rate.bits}; set --rate.bits")
    for name in ("backward_bits", "layers"):
        if getattr(rate, name):
            flag = f"--rate.{name.replace('_', '-')}"
            raise InputError(f"{flag} has no effect with --rate.base {rate.base}: all layers and directions follow it")
    if rate.schedule == "budget":
        raise InputError(f"--rate.schedule budget cannot plan with --rate.base {rate.base}: its bits are not known yet")


def _refuse_idle(rate: RateConfig, bits: set[int], own_ratios: set[float]) -> None:
    """Refuse what needs another setting to have an effect."""
    scheduled = rate.schedule != "constant" or rate.ratio > 1
    dropped = scheduled or any(ratio > 1 for ratio in own_ratios)
    falling = rate.schedule in ("linear", "exponential")
    needs = {
        "code": ("a rate of 1 bit", 1 in bits or not bits),
        "steps": ("--rate.schedule steps", rate.schedule == "steps"),
        "budget": ("--rate.schedule budget", rate.schedule == "budget"),
        "max_ratio": ("--rate.schedule linear or exponential", falling),
        "min_ratio": ("--rate.schedule linear or exponential", falling),
        "slope": ("--rate.schedule linear", rate.schedule == "linear"),
        "rescale": ("a ratio of columns", dropped),
        "spare_last": ("a ratio of columns", dropped),
    }
    default = RateConfig()
    for name, (needed, given) in needs.items():
        if not given and getattr(rate, name) != getattr(default, name):
            raise InputError(f"--rate.{name.replace('_', '-')} has no effect without {needed}")
