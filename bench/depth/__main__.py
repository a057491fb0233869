"""Accuracy and convergence of 32-layer GCNII and ResGCN+ in the pipeline, technique by technique; see README.md.

    python -m bench.depth --data FOLDER [--graphs squirrel-filtered,debian] [--models gcnii] [--minutes 120]

FOLDER holds the `.npz` graphs; `debian` is built in. Every finished run is kept in `result.json`, so that the table can
be built in pieces: a second call goes on where the first one stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.accuracy.pool import Workers
from bench.accuracy.tasks import find
from bench.depth.table import table
from bench.depth.tasks import WORKERS, Task, tasks
from bench.depth.worker import train_here
from halowire import load
from halowire.partitioning import partition, write_shards

HERE = Path(__file__).parent


def run(task: Task, workers: Workers, folder: Path | None, work: Path) -> dict[str, Any]:
    """Cut the graph (once per graph, number of parts and seed) and train."""
    shards = work / f"{task.data.name}-{task.way.parts}-{task.seed}"
    if not shards.exists():
        graph = load(find(task.data.name, folder), undirected=task.data.undirected)
        write_shards(graph, partition(graph, task.way.parts, "metis", task.seed), shards)
    start = time.monotonic()
    found: dict[str, Any] = workers.run(train_here, str(shards), task.way.recipe, task.settings)
    return found | {"epochs": task.epochs, "seconds": round(time.monotonic() - start, 1)}


def save(results: dict[str, Any], out: Path) -> None:
    """Write the result file and the tables."""
    temporary = out.with_suffix(".tmp")
    temporary.write_text(json.dumps(results) + "\n")
    temporary.rename(out)
    out.with_suffix(".md").write_text(table(results) + "\n")


def planned(graphs: list[str], models: list[str], epochs: int) -> list[Task]:
    """All runs, for ``epochs`` epochs each if these are not 0."""
    found = list(tasks(graphs, models))
    return [replace(task, data=replace(task.data, epochs=epochs, longer={})) for task in found] if epochs else found


def finished(task: Task, results: dict[str, Any]) -> bool:
    """Whether ``results`` hold the run, trained for as long as it is to be."""
    return bool(results.get(task.key, {}).get("epochs") == task.epochs)


def main() -> None:
    """Run what is missing, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the .npz graphs")
    parser.add_argument("--graphs", default="", help="only these graphs")
    parser.add_argument("--models", default="", help="only these models")
    parser.add_argument("--epochs", type=int, default=0, help="other epochs than the table's, to try out; needs --out")
    parser.add_argument("--minutes", type=float, default=120, help="begin no run after this many minutes")
    parser.add_argument("--out", type=Path, help="result file (result.json beside this script)")
    args = parser.parse_args()
    if args.epochs and args.out is None:
        parser.error("--epochs is for trying out: name a result file of its own with --out")
    args.out = args.out or HERE / "result.json"
    results: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {}
    graphs, models = ([name for name in text.split(",") if name] for text in (args.graphs, args.models))
    todo = [task for task in planned(graphs, models, args.epochs) if not finished(task, results)]
    end = time.monotonic() + 60 * args.minutes
    workers = Workers(WORKERS) if todo else None
    with tempfile.TemporaryDirectory(prefix="halowire-depth-") as work:
        for number, task in enumerate(todo):
            if workers is None or time.monotonic() > end:
                print(f"stopped with {len(todo) - number} runs to go; the same command goes on")
                break
            results[task.key] = found = run(task, workers, args.data, Path(work))
            save(results, args.out)
            loss = (found["losses"] or [math.nan])[-1]
            print(
                f"{number + 1}/{len(todo)} {task.key}: test {found['test']:.4f}, loss {loss:.4g}, "
                f"{found['seconds']:.0f} s, {found['epoch_cpu_seconds']:.2f} core seconds per epoch and worker",
                flush=True,
            )
    if workers is not None:
        workers.close()
    print(table(results))


if __name__ == "__main__":
    main()
