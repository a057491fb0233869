"""Rows that travel per layer, before and after each exact reduction; see README.md.

    python -m bench.bytes --data FOLDER [--graphs debian,ogbn-arxiv] [--parts 4,16] [--methods metis,hypergraph]

FOLDER holds the `.npz` graphs; `debian` is built in. Nothing is trained: rows are counted on the cut. Every finished
cut is kept in `result.json`, so that the table can be built in pieces; `--again` counts it anew.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from bench.accuracy.tasks import find
from bench.bytes.table import table
from halowire import load
from halowire.graph import Graph
from halowire.partitioning import cut, measure, partition

HERE = Path(__file__).parent
GRAPHS = "debian,ogbn-arxiv,coauthor-physics,amazon-computers,tolokers,wordnet"


def count(graph: Graph, parts: int, method: str) -> dict[str, Any]:
    """Cut ``graph`` and count the rows of one layer in one direction."""
    start = time.monotonic()
    made = partition(graph, parts, method)
    seconds = time.monotonic() - start
    quality = measure(graph, made)
    start = time.monotonic()
    covered = sum(sum(shard.cover_counts()) for shard in cut(graph, made))
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "halo_rows": sum(quality.halo_rows),
        "cover_rows": covered,
        "cover_seconds": round(time.monotonic() - start, 1),
        "cut_share": round(quality.cut_share, 4),
        "work": round(quality.work_imbalance, 3),
        "memory": round(quality.memory_imbalance, 3),
        "choices": list(quality.choices),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Count what is missing, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.bytes", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with the .npz graphs")
    parser.add_argument("--graphs", default=GRAPHS)
    parser.add_argument("--parts", default="4,16")
    parser.add_argument("--methods", default="metis,hypergraph")
    parser.add_argument("--out", type=Path, default=HERE / "result.json")
    parser.add_argument("--again", action="store_true", help="count finished cuts anew")
    asked = parser.parse_args()
    results: dict[str, Any] = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    for name in asked.graphs.split(","):
        graph: Graph | None = None
        for parts in asked.parts.split(","):
            for method in asked.methods.split(","):
                key = f"{name} {parts} {method}"
                if key in results and not asked.again:
                    continue
                graph = graph or load(find(name, asked.data), undirected=name != "debian")
                results[key] = count(graph, int(parts), method)
                asked.out.write_text(json.dumps(results, indent=1) + "\n")
                print(f"{key}: {results[key]['halo_rows']:,} rows, {results[key]['seconds']} s", flush=True)
    asked.out.with_suffix(".md").write_text(table(results) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
