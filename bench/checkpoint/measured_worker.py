"""A worker that trains with a checkpoint in every epoch, and without any, in turns of a few epochs."""

from __future__ import annotations

import itertools
import json
import statistics
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from halowire.graph import load
from halowire.partitioning import cut, partition
from halowire.training import GraphParallel, Hooks, Trainer, recipe_config
from halowire.training.save_times import SaveTimes
from halowire.wire import Transport

WORKERS = 2
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "exact, plain": ("exact", {"wire.plain": True}),
    "exact": ("exact", {}),
    "halowire": ("halowire", {}),
    "halowire-classic": ("halowire-classic", {}),
}
"""What the table names: a recipe as it is, or with every row sent; the wire of the last one remembers most."""
BLOCK = 4
"""Epochs with a checkpoint each, then as many without, in turns: the machine's speed changes from minute to minute."""


class Turns(SaveTimes):
    """Saves the run after every epoch of every second block."""

    def due(self, epoch: int, minutes_over: bool) -> bool:
        """Whether ``epoch`` is in a block with checkpoints."""
        return epoch // BLOCK % 2 == 1


class Watch:
    """Notes when every epoch ended: what lies between two ends is an epoch with all that the loop does besides."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def epoch(self, epoch: int, loss: float, seconds: float, wire_bytes: int) -> None:
        """Note the time."""
        self.ends.append(time.perf_counter())

    def evaluated(self, epoch: int, metrics: dict[str, float]) -> None:
        """Nothing: only the last epoch is evaluated, and it does not count."""

    def blocks(self) -> list[tuple[float, float]]:
        """Mean seconds of an epoch, without and with checkpoints, of every two blocks but the first.

        The copy of a checkpoint after epoch ``n`` lies before the end of epoch ``n + 1``, and so does its writing; its
        renaming lies in the epoch after. So a block of checkpoints is measured up to two epochs later, and what is
        without them begins there.
        """
        seconds = [end - begin for begin, end in itertools.pairwise(self.ends)]  # seconds[n]: up to the end of n + 1
        found = []
        for first in range(2 * BLOCK, len(seconds) - 2 * BLOCK, 2 * BLOCK):
            middle = first + BLOCK - 1
            without = statistics.fmean(seconds[first + 1 : middle])
            spent = sum(seconds[middle : middle + BLOCK + 2]) - 2 * without
            found.append((without, spent / BLOCK))
        return found


def work(rank: int, folder: str, graph: str, blocks: int) -> None:
    """One worker: every case, in blocks of epochs with and without checkpoints."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", WORKERS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORKERS, timeout=timedelta(seconds=600))
    whole = load(graph)
    shard = cut(whole, partition(whole, WORKERS))[rank]
    found: dict[str, Any] = {}
    for name, (recipe, settings) in CASES.items():
        epochs = 2 * BLOCK * (blocks + 2)
        config = recipe_config(recipe).replace({"epochs": epochs, "eval.every": epochs} | settings)
        run, transport, watch = Path(folder, name.replace(", ", "-")), Transport(), Watch()
        trainer = Trainer(GraphParallel(shard, shard, config, transport), config, transport, run)
        trainer._state._times = Turns(config.checkpoint)
        trainer.run(Hooks(watch))
        size = sum(path.stat().st_size for path in max((run / "checkpoints").glob("epoch-*")).iterdir())
        found[name] = {"blocks": watch.blocks(), "bytes": size}
    if rank == 0:
        Path(folder, "times.json").write_text(json.dumps(found))
