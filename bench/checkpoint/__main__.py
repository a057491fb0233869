"""Measures what a checkpoint in every epoch adds to the epoch; see README.md.

python -m bench.checkpoint [--rounds 4] [--epochs 10] [--graph debian]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from bench.aggregate.__main__ import processor
from halowire.graph import load
from halowire.partitioning import cut, partition
from halowire.training import GraphParallel, Hooks, Trainer, recipe_config
from halowire.wire import Transport

RESULT = Path(__file__).with_name("result.json")
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


def row(recipe: str, found: dict[str, Any]) -> dict[str, Any]:
    """The figures of a recipe: medians and minima, and how much longer an epoch with a checkpoint takes."""
    parts: dict[str, Any] = {"recipe": recipe, "bytes": found["bytes"]}
    for name, pick in (("median", statistics.median), ("minimum", min)):
        without, saved = pick(found["without"]), pick(found["with"])
        parts[name] = {"without": without, "with": saved, "more": saved / without - 1}
    return parts


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.checkpoint", description=__doc__)
    parser.add_argument("--rounds", type=int, default=4, help="runs of each kind (4)")
    parser.add_argument("--epochs", type=int, default=10, help="epochs of a run (10)")
    parser.add_argument("--graph", default="debian")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        mp.spawn(work, (folder, options.graph, options.rounds, options.epochs), WORKERS)  # type: ignore[no-untyped-call]
        found = json.loads(Path(folder, "times.json").read_text())
    rows = [row(recipe, found[recipe]) for recipe in RECIPES]
    print("| recipe | checkpoint | epoch, median | with checkpoint | more | minimum | with checkpoint | more |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for one in rows:
        cells = [one["recipe"], f"{one['bytes'] / 2**20:.0f} MiB"]
        for name in ("median", "minimum"):
            part = one[name]
            cells += [f"{part['without']:.3f} s", f"{part['with']:.3f} s", f"{part['more']:+.1%}"]
        print(f"| {' | '.join(cells)} |")
    result = {"processor": processor(), "graph": options.graph, "workers": WORKERS, "rows": rows, "seconds": found}
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
