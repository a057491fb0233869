"""One worker's part of one run; a module of its own, so that the worker processes can import it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from halowire.partitioning import read_shard
from halowire.training import Config, GraphParallel, Trainer, trained_part
from halowire.wire import Transport


def train_here(rank: int, shards: str, settings: dict[str, Any]) -> dict[str, Any]:
    """One worker's part of one run: the summary, and the bytes of the weights that rank 0 sends to the others."""
    config = Config().replace(settings)
    transport = Transport(deadline=600)
    shard = read_shard(shards, rank, verify=False)
    runner = GraphParallel(trained_part(shard, config), shard, config, transport)
    summary = Trainer(runner, config, transport, Path(tempfile.mkdtemp(prefix="halowire-run-"))).run()
    transport.settle()
    weights = sum(parameter.nbytes for parameter in runner.model.parameters())
    return summary | {"weights_wire_bytes": weights * (transport.size - 1)}
