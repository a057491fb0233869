"""Settings of the wire that have no effect beside the others: a run refuses them, a comparison leaves them out."""

from __future__ import annotations

import re

from halowire.kernels.packing import CODE_BITS
from halowire.training.config import Config, FreshnessConfig, RateConfig
from halowire.wire import BASES


def idle_settings(config: Config) -> dict[str, str]:
    """The dotted names of settings that were changed to no effect, each with the reason as the end of a sentence."""
    # Parts without stages leave as many stages as there are workers for: between them rows travel all the same.
    staged = config.mesh.stages > 1 or (not config.mesh.stages and config.mesh.parts > 0)
    silent = config.freshness.mode == "never" and not staged
    return _idle_freshness(config.freshness) | _idle_rate(config.rate, silent)


def idle_message(name: str, reason: str) -> str:
    """The sentence for one of them."""
    return f"--{name.replace('_', '-')} {reason}"


def _idle_freshness(freshness: FreshnessConfig) -> dict[str, str]:
    names = () if freshness.mode in ("delayed", "adaptive") else ("sync_every", "smoothing", "threshold")
    reason = "has no effect without --freshness.mode delayed"
    return {f"freshness.{name}": reason for name in names if getattr(freshness, name)}


def _idle_rate(rate: RateConfig, silent: bool) -> dict[str, str]:
    """``silent``: no rows are sent."""
    if silent:
        reason = "with --freshness.mode never, which sends no rows"
        needs = {name: (reason, False) for name in vars(rate) if name != "weights"}
    else:
        needs = _needs(rate)
    default = RateConfig()
    return {
        f"rate.{name}": f"has no effect {words}"
        for name, (words, used) in needs.items()
        if not used and getattr(rate, name) != getattr(default, name)
    }


def _needs(rate: RateConfig) -> dict[str, tuple[str, bool]]:
    """For every setting that needs another one: what is missing, and whether it is there."""
    forward, backward = _bits(rate)
    bits = forward | backward
    follows = rate.base != "constant"
    dropped = rate.schedule != "constant" or rate.ratio > 1 or bool(rate.layer_ratios)
    falling = rate.schedule in ("linear", "exponential")
    alone = (f"with --rate.base {rate.base}: all layers and directions follow it", not follows)
    return {
        "code": _code(rate.code, forward if rate.backward_code else bits, follows),
        "backward_code": _code(rate.backward_code or rate.code, backward, follows),
        "gain": ("without --rate.decay: nothing is kept", rate.decay >= 0),
        "backward_bits": alone,
        "layers": alone,
        "nodes": ("on 8 bits, the most of any grade; use a base of 1, 2 or 4", follows or bits != {8}),
        "ratio": (f"on the schedule {rate.schedule}", rate.schedule == "constant"),
        "steps": ("without --rate.schedule steps", rate.schedule == "steps"),
        "budget": ("without --rate.schedule budget", rate.schedule == "budget"),
        "max_ratio": ("without --rate.schedule linear or exponential", falling),
        "min_ratio": ("without --rate.schedule linear or exponential", falling),
        "slope": ("without --rate.schedule linear", rate.schedule == "linear"),
        "columns": ("without a ratio of columns", dropped),
        "rescale": ("without a ratio of columns", dropped),
        "spare_last": ("without a ratio of columns", dropped),
    }


def _bits(rate: RateConfig) -> tuple[set[int], set[int]]:
    """All bits that rows have, and all that gradients have; with a share, any from the base up."""
    if rate.share:
        fitting = {bits for bits in BASES if bits >= rate.bits}
        return fitting, fitting
    pairs = re.findall(r":(\d+)(?:/(\d+))?", rate.layers)
    forward = {rate.bits, *(int(first) for first, _ in pairs)}
    return forward, {rate.backward_bits or rate.bits, *(int(last or first) for first, last in pairs)}


def _code(code: str, bits: set[int], follows: bool) -> tuple[str, bool]:
    takes = CODE_BITS[code]
    number = str(takes[0]) if len(takes) == 1 else f"{', '.join(map(str, takes[:-1]))} or {takes[-1]}"
    return f"without a rate of {number} bit{'s' * (number != '1')}", follows or bool(bits & set(takes))
