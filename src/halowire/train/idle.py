"""Settings of the wire that have no effect beside the others: a run refuses them, a comparison leaves them out."""

from __future__ import annotations

from halowire.train.config import Config, FreshnessConfig, RateConfig


def idle_settings(config: Config) -> dict[str, str]:
    """The dotted names of settings that were changed to no effect, each with the reason as the end of a sentence."""
    return _idle_freshness(config.freshness) | _idle_rate(config.rate, config.freshness)


def idle_message(name: str, reason: str) -> str:
    """The sentence for one of them."""
    return f"--{name.replace('_', '-')} {reason}"


def _idle_freshness(freshness: FreshnessConfig) -> dict[str, str]:
    names = () if freshness.mode == "delayed" else ("sync_every", "smoothing", "threshold")
    reason = "has no effect without --freshness.mode delayed"
    return {f"freshness.{name}": reason for name in names if getattr(freshness, name)}


def _idle_rate(rate: RateConfig, freshness: FreshnessConfig) -> dict[str, str]:
    if freshness.mode == "never":
        needs = {
            name: ("with --freshness.mode never, which sends no rows", False)
            for name in vars(rate)
            if name != "weights"
        }
    else:
        one_bit = 1 in (rate.bits, rate.backward_bits) or any(part.endswith(":1") for part in rate.layers.split(","))
        dropped = rate.schedule != "constant" or rate.ratio > 1
        falling = rate.schedule in ("linear", "exponential")
        needs = {
            "code": ("without a rate of 1 bit", one_bit),
            "ratio": (f"on the schedule {rate.schedule}", rate.schedule == "constant"),
            "steps": ("without --rate.schedule steps", rate.schedule == "steps"),
            "budget": ("without --rate.schedule budget", rate.schedule == "budget"),
            "max_ratio": ("without --rate.schedule linear or exponential", falling),
            "min_ratio": ("without --rate.schedule linear or exponential", falling),
            "slope": ("without --rate.schedule linear", rate.schedule == "linear"),
            "rescale": ("without a ratio of columns", dropped),
            "spare_last": ("without a ratio of columns", dropped),
        }
    default = RateConfig()
    return {
        f"rate.{name}": f"has no effect {words}"
        for name, (words, used) in needs.items()
        if not used and getattr(rate, name) != getattr(default, name)
    }
