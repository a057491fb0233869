"""Measures what a checkpoint in every epoch adds to the epoch; see README.md.

python -m bench.checkpoint [--rounds 4] [--epochs 10] [--graph debian]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch.multiprocessing as mp

from bench.aggregate.__main__ import processor
from bench.checkpoint.measured_worker import RECIPES, WORKERS, work

RESULT = Path(__file__).with_name("result.json")


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
        mp.spawn(work, (folder, options.graph, options.rounds, options.epochs), WORKERS)
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
