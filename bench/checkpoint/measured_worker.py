"""A worker that trains with a checkpoint in every epoch, and without any, in turns."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from halowire.graph import load
from halowire.partitioning import cut, partition
from halowire.training import GraphParallel, Hooks, Trainer, recipe_config
from halowire.wire import Transport

WORKERS = 2
RECIPES = ("exact", "halowire")
WARM = 3
"""Epochs at the beginning of a run that do not count."""


class Watch:
    """Notes when every epoch ended: what lies between two ends is an epoch with all that the loop does besides."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def epoch(self, epoch: int, loss: float, seconds: float, wire_bytes: int) -> None:
        """Note the time."""
        self.ends.append(time.perf_counter())

    def evaluated(self, epoch: int, metrics: dict[str, float]) -> None:
        """Nothing: only the last epoch is evaluated, and it does not count."""

    def seconds(self) -> list[float]:
        """Seconds of the epochs that count."""
        return [b - a for a, b in zip(self.ends[WARM:-1], self.ends[WARM + 1 :], strict=True)]


def work(rank: int, folder: str, graph: str, rounds: int, epochs: int) -> None:
    """One worker: every recipe with and without checkpoints, in turns."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", WORKERS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORKERS, timeout=timedelta(seconds=600))
    whole = load(graph)
    shard = cut(whole, partition(whole, WORKERS))[rank]
    found: dict[str, Any] = {}
    for recipe in RECIPES:
        times: dict[int, list[float]] = {0: [], 1: []}
        for number in range(rounds):
            for every in (0, 1) if number % 2 else (1, 0):
                settings = {
                    "epochs": epochs,
                    "eval.every": epochs,
                    "checkpoint.every": every,
                    "checkpoint.minutes": 0.0,
                }
                config = recipe_config(recipe).replace(settings)
                run, transport, watch = Path(folder, f"{recipe}-{every}-{number}"), Transport(), Watch()
                Trainer(GraphParallel(shard, shard, config, transport), config, transport, run).run(Hooks(watch))
                times[every] += watch.seconds()
        newest = max(Path(folder, f"{recipe}-1-0", "checkpoints").glob("epoch-*"))
        size = sum(path.stat().st_size for path in newest.iterdir())
        found[recipe] = {"without": times[0], "with": times[1], "bytes": size}
    if rank == 0:
        Path(folder, "times.json").write_text(json.dumps(found))
