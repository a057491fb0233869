"""Runs six benchmarks in two checkouts by turns, and prints how many times as long each row takes after a change.

    sudo python -m bench.before_after --before CHECKOUT [--only codec overlap] [--rounds 2] [--data FOLDER]

See README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.before_after.cases import CASES, Case

HERE = Path(__file__).parent
AFTER = HERE.parents[1]
Rows = dict[str, float]


def run(case: Case, checkout: Path, work: Path, data: Path | None) -> Rows:
    """Seconds by row of one run of ``case`` in ``checkout``, with that checkout's own Python."""
    out = work / "result.json"
    out.unlink(missing_ok=True)
    words = [word.format(out=out, work=work, data=data) for word in case.words]
    program = [str(HERE / case.bench)] if case.bench.endswith(".py") else ["-m", f"bench.{case.bench}"]
    command = [str(checkout / ".venv/bin/python"), *program, *words]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    text = out.read_text() if out.exists() else done.stdout
    try:
        # A benchmark whose claim does not hold ends with 1, and has measured all the same.
        return case.rows(json.loads(text))
    except ValueError:
        sys.exit(f"{' '.join(command)} in {checkout} failed:\n{done.stderr[-2000:]}")


def measured(case: Case, before: Path, rounds: int, data: Path | None) -> dict[str, list[Rows]]:
    """All runs of a case; who goes first changes from round to round, so that a slow minute meets both."""
    found: dict[str, list[Rows]] = {"before": [], "after": []}
    sides = [("before", before), ("after", AFTER)]
    for number in range(2 * rounds):
        for side, checkout in sides if number % 2 == 0 else sides[::-1]:
            with tempfile.TemporaryDirectory() as work:
                found[side].append(run(case, checkout, Path(work), data))
            print(f"{case.name}: run {number + 1} of {2 * rounds}, {side}", file=sys.stderr, flush=True)
    return found


def compared(name: str, runs: dict[str, list[Rows]]) -> Iterator[dict[str, Any]]:
    """A row per measurement: the fastest runs, their ratio, and the ratio of the earlier code's two halves."""
    before, after = runs["before"], runs["after"]
    for label in before[0]:
        old = [one[label] for one in before]
        new = [one[label] for one in after]
        spread = min(old[0::2]) / min(old[1::2])
        row = {"bench": name, "row": label, "before": min(old), "after": min(new)}
        yield row | {"ratio": min(new) / min(old), "spread": max(spread, 1 / spread)}


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table of all rows."""
    lines = [
        "| benchmark | row | before s | after s | after / before | before twice |",
        "| --- | --- " + "| ---: " * 4 + "|",
    ]
    for row in rows:
        numbers = f"{row['before']:.4g} | {row['after']:.4g} | {row['ratio']:.3f} | {row['spread']:.3f}"
        lines.append(f"| {row['bench']} | {row['row']} | {numbers} |")
    return "\n".join(lines)


def main() -> None:
    """Measure what result.json does not hold yet, and print everything."""
    parser = argparse.ArgumentParser(prog="python -m bench.before_after", description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the earlier code, installed")
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=2, help="pairs of runs of each checkout (2)")
    parser.add_argument("--data", type=Path, help="folder with coauthor-physics.npz, for the case `deep`")
    parser.add_argument("--again", action="store_true", help="measure again what result.json holds")
    parser.add_argument("--out", type=Path, default=HERE / "result.json")
    options = parser.parse_args()
    if "deep" in options.only and options.data is None:
        parser.error("the case `deep` needs --data, the folder with coauthor-physics.npz; or leave it out with --only")
    data = None if options.data is None else options.data.absolute()
    kept: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.only:
        if options.again or name not in kept:
            kept[name] = list(compared(name, measured(CASES[name], options.before.absolute(), options.rounds, data)))
            options.out.write_text(json.dumps(kept, indent=1) + "\n")
    print(table([row for name in options.only for row in kept[name]]))


if __name__ == "__main__":
    main()
