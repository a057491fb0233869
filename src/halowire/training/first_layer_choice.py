"""The choice whether every worker computes the first hidden rows of its halo itself: what forbids it, if it pays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from halowire.layers import MODELS
from halowire.training.config import Config
from halowire.training.home_price import HomePrice

FIRST_EXCHANGE = 1
"""The number of the first layer that exchanges rows."""


@dataclass(frozen=True)
class FirstLayer:
    """Whether the halo's first rows are computed at home, why, and what that saves and costs (where it is known)."""

    at_home: bool
    why: str
    price: HomePrice | None = None

    def words(self) -> str:
        """A line for the console."""
        where = "computed at home" if self.at_home else "exchanged"
        price = "" if self.price is None else f": {self.price.words()}"
        return f"first layer {where}, {self.why}{price}"

    def facts(self) -> dict[str, Any]:
        """What the event log and the summary say."""
        return {"at_home": self.at_home, "why": self.why} | ({} if self.price is None else vars(self.price))


def against_home(config: Config) -> str:
    """Why the first rows must be exchanged under these settings; empty where they can be computed at home."""
    model = MODELS[config.model.name]
    if model.aggregates_input and not model.sums_input:
        return f"the first layer of --model.name {config.model.name} weights its neighbours anew in every epoch"
    if config.rate.resend_input:
        return "--rate.resend-input sends the features anew in every epoch"
    if config.freshness.threshold > 0:
        return "--freshness.threshold measures how the rows of the first exchange change"
    for flag, text in (("layers", config.rate.layers), ("layer-ratios", config.rate.layer_ratios)):
        named = [pair.partition(":")[0].strip() for pair in text.split(",")]
        if any(name.isdecimal() and int(name) == FIRST_EXCHANGE for name in named):
            return f"--rate.{flag} {text} gives its rows a rate of their own"
    return ""


def nothing_to_exchange(config: Config, workers: int) -> str:
    """Why the first rows of a halo are of no use in this run; empty where they are."""
    if workers == 1:
        return "one worker has no halo"
    if config.freshness.mode == "never" and config.wire.first_layer != "local":
        return "no rows travel"
    if config.model.layers == 1 and MODELS[config.model.name].aggregates_input:
        return "a model of one layer sends no rows"
    return ""


def asked(config: Config) -> FirstLayer | None:
    """What the settings decide by themselves; None where the price decides."""
    wire = config.wire
    if wire.plain or wire.first_layer == "exchange":
        return FirstLayer(False, "as --wire.plain asks" if wire.plain else "as --wire.first-layer exchange asks")
    against = against_home(config)
    return FirstLayer(False, f"because {against}") if against else None


def chosen(config: Config, price: HomePrice) -> FirstLayer:
    """The choice by ``price``, unless the settings ask for the first layer at home."""
    if config.wire.first_layer == "local":
        return FirstLayer(True, "as --wire.first-layer local asks", price)
    if not price.fits:
        return FirstLayer(False, "because a worker has not the memory to compute it at home", price)
    if price.pays:
        return FirstLayer(True, "which is predicted to pay", price)
    return FirstLayer(False, "because computing it at home is not predicted to pay", price)
