"""One worker's part of one run; a module of its own, so that the worker processes can import it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from halowire.partitioning import read_shard
from halowire.training.loop import Trainer
from halowire.training.recipes import recipe_config
from halowire.training.view import View
from halowire.wire import Transport


def train_here(rank: int, shards: str, recipe: str, settings: dict[str, Any]) -> dict[str, Any]:
    """One worker's part of one run; the summary."""
    config = recipe_config(recipe).replace(settings)
    transport, device = Transport(deadline=600), torch.device("cpu")
    shard = read_shard(shards, rank, verify=False)
    whole = View.of(shard, config, transport, device)
    train = View.of(shard.isolated(), config, transport, device) if config.freshness.mode == "never" else whole
    summary = Trainer(train, whole, config, transport, Path(tempfile.mkdtemp(prefix="halowire-run-"))).run()
    transport.settle()
    return summary
