"""The choice whether partial sums travel in the place of halo rows: what forbids it, and whether it pays."""

from __future__ import annotations

import torch

from halowire.events import SETUP
from halowire.layers import MODELS
from halowire.partitioning import Shard
from halowire.training.config import Config
from halowire.wire import Transport

LEAST_SAVING = 0.05
"""The share of the rows that partial sums must save to be chosen: they cost the sender a pass over its boundary."""


def against_cover(config: Config) -> str:
    """Why rows must travel themselves under these settings; empty where partial sums can take their place."""
    if not MODELS[config.model.name].can_sample:
        return f"--model.name {config.model.name} weighs every row by its own score, which a sum of rows has not"
    if config.rate.decay >= 0:
        return "with --rate.decay rows travel before dropout, and the receiver drops their values one by one"
    if config.rate.nodes == "degree":
        return "--rate.nodes degree gives every node bits of its own, and a sum belongs to several nodes"
    return ""


def use_cover(shard: Shard, config: Config, transport: Transport) -> bool:
    """Whether partial sums travel; all workers decide the same, from the rows of all of them."""
    if config.wire.cover == "off" or against_cover(config):
        return False
    if config.wire.cover == "on":
        return True
    sizes = torch.tensor([sum(shard.recv_counts), sum(shard.cover_counts())])
    rows, covered = transport.all_reduce(sizes, "reduction of the rows that travel", SETUP).tolist()
    return pays(rows, covered)


def pays(rows: int, covered: int) -> bool:
    """Whether it is worth while to send ``covered`` rows and partial sums in the place of ``rows`` rows."""
    return bool(covered <= (1 - LEAST_SAVING) * rows and rows)
