"""The choice whether partial sums travel in the place of halo rows: what forbids it, and whether it pays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from halowire.events import SETUP
from halowire.layers import MODELS
from halowire.partitioning import Shard
from halowire.training.config import Config
from halowire.wire import Transport

LEAST_SAVING = 0.05
"""The share of the rows that partial sums must save to be chosen: they cost the sender a pass over its boundary."""


@dataclass(frozen=True)
class PartialSums:
    """Whether partial sums travel, why, and how many rows an exchange of all workers has without and with them.

    ``covered`` is None where it was not worked out, because partial sums cannot travel or are not wanted.
    """

    used: bool
    why: str
    rows: int
    covered: int | None = None

    def words(self) -> str:
        """A line for the console."""
        travel = "partial sums travel" if self.used else "no partial sums travel"
        counted = "" if self.covered is None else f" ({self.covered:,} rows per layer instead of {self.rows:,})"
        return f"halo sums   {travel}, {self.why}{counted}"

    def facts(self) -> dict[str, Any]:
        """What the event log and the summary say."""
        return vars(self)


def against_cover(config: Config) -> str:
    """Why rows must travel themselves under these settings; empty where partial sums can take their place."""
    if not MODELS[config.model.name].can_sample:
        return f"--model.name {config.model.name} weighs every row by its own score, which a sum of rows has not"
    if config.freshness.mode == "never":
        return "with --freshness.mode never no rows travel"
    if config.rate.decay >= 0:
        return "with --rate.decay rows travel before dropout, and the receiver drops their values one by one"
    if config.freshness.mode == "late-rows":
        return "with --freshness.mode late-rows they travel before dropout, and the receiver drops values one by one"
    if config.rate.nodes == "degree":
        return "--rate.nodes degree gives every node bits of its own, and a sum belongs to several nodes"
    return ""


def choose_cover(shard: Shard, config: Config, transport: Transport, against: str) -> PartialSums:
    """Whether partial sums travel; all workers decide the same, from the rows of all of them.

    ``against`` says why rows must travel themselves, where they must.
    """
    wire = config.wire
    wanted = not (wire.plain or wire.cover == "off" or against)
    counts = [sum(shard.recv_counts), sum(shard.cover_counts()) if wanted else 0]
    rows, covered = transport.all_reduce(torch.tensor(counts), "reduction of the rows that travel", SETUP).tolist()
    if wire.plain or wire.cover == "off":
        return PartialSums(False, "as --wire.plain asks" if wire.plain else "as --wire.cover off asks", rows)
    if against:
        return PartialSums(False, f"because {against}", rows)
    if wire.cover == "on":
        return PartialSums(True, "as --wire.cover on asks", rows, covered)
    saved = rows - covered
    why = f"because they save {saved / max(rows, 1):.0%} of the rows"
    return PartialSums(pays(rows, covered), why, rows, covered)


def pays(rows: int, covered: int) -> bool:
    """Whether it is worth while to send ``covered`` rows and partial sums in the place of ``rows`` rows."""
    return bool(covered <= (1 - LEAST_SAVING) * rows and rows)
