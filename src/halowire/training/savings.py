"""What a run need not send: partial sums in the place of rows, and a first layer that is computed at home."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from halowire.partitioning import Shard
from halowire.schedules import Stage
from halowire.training.config import Config
from halowire.training.cover_choice import PartialSums, against_cover, choose_cover
from halowire.training.first_layer_choice import FIRST_EXCHANGE, FirstLayer, asked, chosen, nothing_to_exchange
from halowire.training.home_price import FirstRows, Surroundings, home_price
from halowire.training.machine_shares import Spread
from halowire.training.model_setup import policy_for
from halowire.training.rate_plan import epoch_bytes
from halowire.wire import BACKWARD, HEADER_BYTES, Rate, Transport, sample_size


def silent(text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Savings:
    """What was chosen, the same on all workers; nothing where no rows travel."""

    cover: PartialSums | None = None
    first: FirstLayer | None = None

    @property
    def covers(self) -> bool:
        """Whether partial sums travel."""
        return self.cover is not None and self.cover.used

    @property
    def at_home(self) -> bool:
        """Whether the halo's first rows are computed at home."""
        return self.first is not None and self.first.at_home

    def lines(self) -> list[str]:
        """What was chosen and why, for the console."""
        return [choice.words() for choice in (self.cover, self.first) if choice is not None]

    def say(self, tell: Callable[[str], None]) -> None:
        """Tell every line."""
        for line in self.lines():
            tell(line)

    def settle(self, config: Config) -> Config:
        """``config`` with the choices in the place of `auto`."""
        first = "local" if self.at_home else "exchange"
        cover = "on" if self.covers else "off"
        return config.replace({"wire.first_layer": first, "wire.cover": cover, "wire.link": 0.0})

    def facts(self) -> dict[str, Any]:
        """What the event log and the summary say."""
        found = {"cover": self.cover, "first_layer": self.first}
        return {name: choice.facts() for name, choice in found.items() if choice is not None}

    @property
    def chosen(self) -> dict[str, bool]:
        """What a resumed run compares with its own choices."""
        return {"covers": self.covers, "at_home": self.at_home}


def pipeline_savings(config: Config, parts: int) -> Savings:
    """A pipeline of several parts sends every row; says so where the settings would choose."""
    if config.wire.plain or config.freshness.mode == "never" or parts == 1:
        return Savings()
    why = "because chunks and stages send theirs one after another"
    cover = None if config.wire.cover == "off" else PartialSums(False, why, 0)
    return Savings(cover, None if config.wire.first_layer == "exchange" else FirstLayer(False, why))


def choose_savings(shard: Shard, config: Config, transport: Transport, stage: Stage, around: Surroundings) -> Savings:
    """Choose for a run of the model of ``stage``; all workers call this together."""
    if nothing_to_exchange(config, transport.size):
        return Savings()
    cover = choose_cover(shard, config, transport, against_cover(config))
    first = asked(config)
    if first is not None or shard.x is None:
        return Savings(cover, first)
    if config.wire.link:
        around = replace(around, link=config.wire.link)
    saved = _first_bytes(shard, config, transport, stage, cover)
    arriving = shard.cover_counts() if cover.used else None
    price = home_price(shard, FirstRows.of(stage), saved, arriving, transport, around)
    return Savings(cover, chosen(config, price))


def _first_bytes(
    shard: Shard, config: Config, transport: Transport, stage: Stage, cover: PartialSums
) -> tuple[int, int]:
    """Bytes of layer 1's messages, of all workers, in an epoch in the middle of the run.

    The first number is those on the network, the second those within machines.
    """
    exchanged = Savings(cover).settle(config)
    policy = policy_for(shard, exchanged, transport, shard.num_features, cover=cover.used)
    epoch = 0 if policy.base is not None else config.epochs // 2

    def rates(layer: int, direction: str) -> Rate:
        return replace(policy.rates(epoch, layer, direction), graded=False)

    rows = cover.covered if cover.used and cover.covered is not None else cover.rows
    travelling = sample_size(rows, config.rate.rows)
    sums, returns = cover.sums if cover.used else 0, policy.freshness.sends(BACKWARD)
    every = epoch_bytes(rates, {FIRST_EXCHANGE: stage.layers[0].width}, travelling, returns=returns, sums=sums)
    counts = shard.cover_counts() if cover.used else shard.recv_counts
    spread = Spread.of(shard, counts, transport, policy.once_per_machine)
    header = HEADER_BYTES * (1 + returns)
    over, within = header * spread.over_pairs, header * spread.within_pairs
    return round(every * spread.over) + over, round(every * spread.within) + within
