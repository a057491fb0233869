"""Measures what a checkpoint in every epoch adds to the epoch; see README.md.

python -m bench.checkpoint [--blocks 8] [--graph debian]
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
from bench.checkpoint.measured_worker import CASES, WORKERS, work

RESULT = Path(__file__).with_name("result.json")


def row(recipe: str, found: dict[str, Any]) -> dict[str, Any]:
    """The figures of a recipe: the median and the fastest epoch, and the median of what a checkpoint adds to it."""
    without = [one for one, _ in found["blocks"]]
    saved = [other for _, other in found["blocks"]]
    more = statistics.median(other / one - 1 for one, other in found["blocks"])
    names = {"without": statistics.median(without), "with": statistics.median(saved), "more": more}
    return {"recipe": recipe, "bytes": found["bytes"], **names, "fastest": [min(without), min(saved)]}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.checkpoint", description=__doc__)
    parser.add_argument("--blocks", type=int, default=8, help="pairs of blocks of epochs that count (8)")
    parser.add_argument("--graph", default="debian")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        mp.spawn(work, (folder, options.graph, options.blocks), WORKERS)
        found = json.loads(Path(folder, "times.json").read_text())
    rows = [row(name, found[name]) for name in CASES]
    print("| recipe | checkpoint | epoch | with checkpoint | more | fastest | with checkpoint |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for one in rows:
        cells = [one["recipe"], f"{one['bytes'] / 2**20:.0f} MiB", f"{one['without']:.3f} s", f"{one['with']:.3f} s"]
        cells += [f"{one['more']:+.1%}", *(f"{seconds:.3f} s" for seconds in one["fastest"])]
        print(f"| {' | '.join(cells)} |")
    result = {"processor": processor(), "graph": options.graph, "workers": WORKERS, "rows": rows, "seconds": found}
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
