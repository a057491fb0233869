"""Measures which share of delayed and of fresh transfers the computation hides, at several rates; see README.md."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench.aggregate.__main__ import processor
from bench.netlab import Lab, LabError
from bench.slow_network.cases import HOSTS, SMALL, SYNTHETIC
from bench.slow_network.session import RecipeSession
from bench.timing.rate import rounded, transfer_seconds

RESULT = Path(__file__).with_name("result.json")
WORK = Path("runs/slow_network")
RECIPES = {"sylvie-a": "1 bit, delayed", "sylvie-s": "1 bit, fresh", "halowire-classic": "1 bit, changes, fresh"}
LOADS = (0.1, 0.25, 0.5, 0.75)
"""Transfer time of an epoch's halo messages as a share of the epoch without a network."""


def measured(session: RecipeSession, lab: Lab, model: str) -> list[dict[str, Any]]:
    """One row per recipe and rate; the rates are the same for all recipes."""
    lab.set_rate(None)
    nulls = {name: session.time(model, name, 4, 2, null=True, settings={}) for name in RECIPES}
    base = nulls["sylvie-a"]
    rows = []
    for load in LOADS:
        rate = rounded(transfer_seconds(base.halo_bytes, HOSTS, 1.0) / (load * base.seconds))
        lab.set_rate(f"{rate}bit")
        for name, words in RECIPES.items():
            found = session.time(model, name, 5, 3, settings={})
            transfer = transfer_seconds(found.halo_bytes, HOSTS, rate)
            row = {"model": model, "rate": rate, "recipe": name, "kind": words, "seconds": found.seconds}
            row |= {"null_seconds": nulls[name].seconds, "transfer_seconds": transfer, "wait_seconds": found.halo_wait}
            row |= {"idle_seconds": nulls[name].halo_wait, "hidden": 1 - found.halo_wait / transfer}
            rows.append(row | {"reduce_seconds": found.phases.get("reduce", 0.0), "others": found.others})
            print(line(rows[-1]), flush=True)
    return rows


def line(row: dict[str, Any]) -> str:
    """A row of the Markdown table."""
    cells = [row["model"], f"{row['rate'] / 1e6:g}", row["recipe"], row["kind"], f"{row['transfer_seconds']:.2f}"]
    cells += [f"{row['wait_seconds']:.2f}", f"{row['hidden']:.0%}", f"{row['seconds']:.2f}"]
    cells.append(f"{row['null_seconds']:.2f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.overlap", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a graph of 20,000 nodes")
    parser.add_argument("--models", nargs="+", default=["sage"], choices=["sage", "gcn"])
    parser.add_argument("--work", type=Path, default=WORK, help=f"folder for shards and runs ({WORK})")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to wait for a quiet machine (60)")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    case = SMALL if options.quick else SYNTHETIC
    print("| model | mbit/s | recipe | messages | transfer s | waited s | hidden | s/epoch | without network |")
    print("| --- | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    shards, folder = case.shards(options.work), options.work / "overlap"
    try:
        with Lab(HOSTS, None) as lab, RecipeSession(lab, shards, folder, options.patience) as session:
            rows = [row for model in options.models for row in measured(session, lab, model)]
    except LabError as error:
        sys.exit(str(error))
    options.out.write_text(json.dumps({"processor": processor(), "graph": case.spec, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
