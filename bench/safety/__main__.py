"""Measures what headers, digests and checks cost of an epoch and of a start on the Debian graph; see README.md."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench.aggregate.__main__ import processor
from bench.soak.table import write_between
from halowire.graph import load
from halowire.launch.local import run_local
from halowire.partitioning import is_shard_folder, partition, write_shards

RESULT = Path(__file__).with_name("result.json")
WORK = Path("runs/safety")
PLAIN = {"wire.plain": True}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "exact, plain": ("exact", PLAIN),
    "exact": ("exact", {}),
    "halowire, plain": ("halowire", PLAIN),
    "halowire": ("halowire", {}),
}
"""What the table names: a recipe as it is, or with every row sent (`--wire.plain`)."""
GOAL = 0.01
"""Largest share of an epoch that headers and checks may cost."""
Row = dict[str, Any]


def shards_of(work: Path, graph: str) -> Path:
    """The graph cut for two workers, made once."""
    folder = work / f"shards-{graph.partition(':')[0]}"
    if not is_shard_folder(folder):
        whole = load(graph)
        write_shards(whole, partition(whole, 2), folder)
    return folder


def measured(name: str, shards: Path, work: Path, blocks: int, hidden: int) -> Row:
    """Epochs of one case by turns, in one group of two processes."""
    recipe, settings = CASES[name]
    key = name.replace(", ", "-")
    answer = work / f"answer-{key}.json"
    answer.unlink(missing_ok=True)
    request = {"recipe": recipe, "shards": str(shards.absolute()), "blocks": blocks, "begun": time.time()}
    settings = {"model.hidden": hidden, "threads": 1} | settings
    request |= {"settings": settings, "answer": str(answer.absolute()), "run": str((work / f"run-{key}").absolute())}
    file = work / f"request-{key}.json"
    file.write_text(json.dumps(request))
    run_local(2, "bench.safety.worker", [str(file.absolute())])
    return row_of(name, json.loads(answer.read_text()))


def row_of(recipe: str, found: dict[str, Any]) -> Row:
    """What the two kinds of epochs took, and the cost as a share: by pairs of neighbours, and by the counted calls.

    A turn is with, without, without, with: each gives two ratios of neighbours, whose median is the share.
    """
    with_checks, without = found["with"], found["without"]
    ratios = sorted(a / b - 1 for a, b in zip(with_checks, without, strict=True))
    quarter = len(ratios) // 4
    spread = statistics.stdev(ratios[quarter : len(ratios) - quarter]) / (len(ratios) / 2) ** 0.5
    start = found["start"]
    return {
        "recipe": recipe, "epochs": len(with_checks) + len(without), "median_with": statistics.median(with_checks),
        "median_without": statistics.median(without), "fastest_with": min(with_checks), "fastest_without": min(without),
        "share": statistics.median(ratios), "spread": spread,
        "counted_share": found["counted"] / statistics.median(with_checks),
        "start": start, "agreement_share": found["agreement"] / start,
        "shard_seconds": found["checked"], "shard_check_share": (found["checked"] - found["unchecked"]) / start,
    }  # fmt: skip


def table(rows: list[Row]) -> str:
    """The Markdown table."""
    lines = [
        "| recipe | epochs | ms with | ms without | cost, pairs of epochs | cost, counted | "
        "agreement, of the start | check of the shard, of the start |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        cells = [row["recipe"], str(row["epochs"]), f"{1e3 * row['median_with']:.1f}"]
        cells += [f"{1e3 * row['median_without']:.1f}", f"{row['share']:+.2%} ± {row['spread']:.2%}"]
        cells += [f"{row['counted_share']:.2%}", f"{row['agreement_share']:.2%}", f"{row['shard_check_share']:.2%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Measure, print, write; the exit code is 1 if a case misses the goal."""
    parser = argparse.ArgumentParser(prog="python -m bench.safety", description=__doc__)
    parser.add_argument("--graph", default="debian")
    parser.add_argument("--blocks", type=int, default=30, help="turns of four epochs (30)")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--work", type=Path, default=WORK, help=f"folder for shards ({WORK})")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    shards = shards_of(options.work, options.graph)
    rows = [measured(name, shards, options.work, options.blocks, options.hidden) for name in CASES]
    print(table(rows))
    result = {"processor": processor(), "graph": options.graph, "hidden": options.hidden, "rows": rows}
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    if options.out == RESULT:
        write_between("safety", table(rows))
    return 0 if all(row["share"] - 2 * row["spread"] < GOAL for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
