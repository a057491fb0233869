"""One worker's part of one run; a module of its own, so that the worker processes can import it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from halowire.partitioning import read_shard
from halowire.training import GraphParallel, Trainer, recipe_config
from halowire.wire import Transport


def train_here(rank: int, shards: str, recipe: str, settings: dict[str, Any]) -> dict[str, Any]:
    """One worker's part of one run; the summary."""
    # The tables are of wires that send every row; bench/bytes counts what need not travel.
    config = recipe_config(recipe).replace({"wire.plain": True} | settings)
    transport = Transport(deadline=600)
    shard = read_shard(shards, rank, verify=False)
    train = shard.isolated() if config.freshness.mode == "never" else shard
    runner = GraphParallel(train, shard, config, transport)
    summary = Trainer(runner, config, transport, Path(tempfile.mkdtemp(prefix="halowire-run-"))).run()
    transport.settle()
    return summary
