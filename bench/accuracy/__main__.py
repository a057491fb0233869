"""Test accuracy of every recipe on real graphs, cut into 4 parts by METIS and at random.

    python -m bench.accuracy --data FOLDER [--graphs cora,dblp] [--minutes 110] [--codes]

FOLDER holds the `.npz` graphs; `debian` is built in. Every finished run is kept in `result.json`, so that the table
can be built in pieces: a second call goes on where the first one stopped; the tables go to `result.md`. SAGE, 3 layers,
128 hidden, Adam 0.01.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.accuracy.pool import Workers
from bench.accuracy.table import table
from bench.accuracy.tasks import PARTS, Task, find, tasks
from bench.accuracy.worker import train_here
from halowire import load
from halowire.partitioning import partition, write_shards

HERE = Path(__file__).parent
KEPT = (
    "val", "test", "best_epoch", "epoch_seconds", "wire_bytes_per_epoch", "setup_wire_bytes", "weights_wire_bytes",
    "epochs",
)  # fmt: skip
"""What is kept of a run, beside the digest of its settings."""


def run(task: Task, workers: Workers, folder: Path | None, work: Path) -> dict[str, Any]:
    """Cut the graph (once per graph, cut and seed) and train."""
    shards = work / f"{task.data.name}-{task.cut}-{task.seed}"
    if not shards.exists():
        graph = load(find(task.data.name, folder), undirected=task.data.undirected)
        write_shards(graph, partition(graph, PARTS, task.cut, task.seed), shards)
    summary = workers.run(train_here, str(shards), task.config.flat())
    return {name: summary[name] for name in KEPT} | {"digest": task.digest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the .npz graphs")
    parser.add_argument("--graphs", default="", help="only these graphs")
    parser.add_argument("--minutes", type=float, default=110, help="stop after this many minutes")
    parser.add_argument("--codes", action="store_true", help="compare one-bit codes too, on two graphs cut at random")
    parser.add_argument("--out", type=Path, default=HERE / "result.json")
    args = parser.parse_args()
    results: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {}
    wanted = tasks([name for name in args.graphs.split(",") if name], args.codes)
    todo = [task for task in wanted if results.get(task.key, {}).get("digest") != task.digest]
    expected = {task.key: task.digest for task in tasks([], codes=True)}
    end = time.monotonic() + 60 * args.minutes
    workers = Workers(PARTS) if todo else None
    with tempfile.TemporaryDirectory(prefix="halowire-accuracy-") as work:
        for number, task in enumerate(todo):
            if workers is None or time.monotonic() > end:
                print(f"stopped with {len(todo) - number} runs to go; the same command goes on")
                break
            results[task.key] = run(task, workers, args.data, Path(work))
            temporary = args.out.with_suffix(".tmp")
            temporary.write_text(json.dumps(results, indent=1) + "\n")
            temporary.rename(args.out)
            print(f"{number + 1}/{len(todo)} {task.key}: test {results[task.key]['test']:.4f}", flush=True)
    if workers is not None:
        workers.close()
    found = table({key: run for key, run in results.items() if expected.get(key) == run["digest"]}, expected)
    args.out.with_suffix(".md").write_text(found + "\n")
    print(found)


if __name__ == "__main__":
    main()
