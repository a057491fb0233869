"""Measures what looking at the content of a shard adds to reading it, from disk and from memory; see README.md.

python -m bench.safety.opening [--nodes 500000] [--features 128] [--rounds 40]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bench.aggregate.__main__ import processor
from bench.soak.table import write_between
from halowire.graph import block_model
from halowire.partitioning import is_shard_folder, partition, read_manifest, read_shard, write_shards
from halowire.partitioning.array_files import read_arrays
from halowire.partitioning.content import expected_arrays

RESULT = Path(__file__).with_name("opening.json")
WORK = Path("runs/safety")
EDGES_PER_NODE = 10
Row = dict[str, Any]


def shards_of(work: Path, nodes: int, features: int, method: str) -> Path:
    """A block model cut into two parts, made once."""
    folder = work / f"opening-{nodes}-{features}-{method}"
    if not is_shard_folder(folder):
        graph = block_model(nodes, EDGES_PER_NODE * nodes, features, 16, seed=1)
        write_shards(graph, partition(graph, 2, method=method, seed=1), folder)
    return folder


def ways(folder: Path) -> dict[str, Callable[[], object]]:
    """Three ways to open part 0: with checksums only, with a look at each array's values, and with all checks.

    The features are read last, as opening a shard does.
    """
    manifest, part = read_manifest(folder), folder / "part-0"
    entry = manifest["parts"][0]["shard"]
    expected = expected_arrays(manifest, entry, part)
    unseen = {name: replace(one, values=None) for name, one in expected.items()}
    files = dict(sorted(entry["files"].items(), key=lambda item: item[0] == "x"))
    return {
        "read": lambda: (read_manifest(folder), read_arrays(part, files, True, unseen)),
        "values": lambda: (read_manifest(folder), read_arrays(part, files, True, expected)),
        "all": lambda: read_shard(folder, 0),
    }


def forget(folder: Path) -> None:
    """Let the system drop the files of part 0 from its cache, so that they come from the disk."""
    for path in (folder / "part-0").glob("*.npy"):
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def measured(folder: Path, cold: bool, rounds: int) -> Row:
    """Seconds to read part 0 and what each way adds, also in processor time; the fastest of many turns each."""
    steps = ways(folder)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    spent: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            if cold:
                forget(folder)
            begun, used = time.perf_counter(), time.process_time()
            step()
            seconds[name].append(time.perf_counter() - begun)
            spent[name].append(time.process_time() - used)
    size = sum(path.stat().st_size for path in (folder / "part-0").glob("*.npy"))
    row: Row = {"from": "disk" if cold else "memory", "bytes": size}
    for kind, found in (("seconds", seconds), ("processor", spent)):
        least = {name: min(times) for name, times in found.items()}
        row[kind] = {"read": least["read"]} | {name: least[name] - least["read"] for name in ("values", "all")}
    return row


def table(rows: list[Row]) -> str:
    """The Markdown table."""
    heads = ["cut", "from", "MB", "ms to read", "values", "all checks", "processor: ms to read", "values", "all checks"]
    lines = [f"| {' | '.join(heads)} |", "| --- | --- |" + " ---: |" * (len(heads) - 2)]
    for row in rows:
        cells = [row["cut"], row["from"], f"{row['bytes'] / 1e6:.0f}"]
        for kind in ("seconds", "processor"):
            read = row[kind]["read"]
            cells.append(f"{1e3 * read:.1f}")
            cells += [f"{1e3 * row[kind][name]:+.2f} ({row[kind][name] / read:.1%})" for name in ("values", "all")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.safety.opening", description=__doc__)
    parser.add_argument("--nodes", type=int, default=500_000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--work", type=Path, default=WORK, help=f"folder for shards ({WORK})")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)
    rows = []
    for method in ("metis", "random"):
        folder = shards_of(options.work, options.nodes, options.features, method)
        rows += [{"cut": method} | measured(folder, cold, options.rounds) for cold in (True, False)]
    print(table(rows))
    result = {"processor": processor(), "nodes": options.nodes, "features": options.features, "rows": rows}
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    if options.out == RESULT:
        write_between("opening", table(rows))


if __name__ == "__main__":
    main()
