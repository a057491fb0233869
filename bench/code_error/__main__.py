"""Measures the relative squared error of every code in training and prints it beside its formula; see README.md."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.code_error.cases import CODES, EPOCHS, GRAPH, HIDDEN, WORKERS
from halowire import partition
from halowire.launch import run_local

RESULT = Path(__file__).with_name("result.json")
PLACES = [(layer, direction) for direction in ("forward", "backward") for layer in (1, 2)]


def measured(seed: int) -> list[dict[str, Any]]:
    """One row per code, epoch, layer and direction: means of the workers."""
    with tempfile.TemporaryDirectory(prefix="halowire-") as name:
        folder = Path(name)
        shards = partition(GRAPH, WORKERS, folder / "shards", seed=seed)
        run_local(WORKERS, "bench.code_error.worker", [str(shards), name, str(seed)])
        by_rank = [json.loads((folder / f"found-{rank}.json").read_text()) for rank in range(WORKERS)]
    rows = []
    for same in zip(*by_rank, strict=True):
        place = {key: same[0][key] for key in ("code", "epoch", "layer", "direction")}
        assert all(place.items() <= row.items() for row in same)
        rows.append(place | {key: fmean(row[key] for row in same) for key in ("expected", "measured")})
    return rows


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The Markdown table: expected / measured."""
    found = {(row["code"], row["epoch"], row["layer"], row["direction"]): row for row in rows}
    epochs = sorted({row["epoch"] for row in rows})
    heads = ["code", "epoch", *(f"layer {layer}, {direction}" for layer, direction in PLACES)]
    lines = [f"| {' | '.join(heads)} |", f"| --- | ---: |{' ---: |' * len(PLACES)}"]
    for code in CODES:
        for epoch in epochs:
            cells = [found[code, epoch, *place] for place in PLACES]
            words = [f"{figure(cell['expected'])} / {figure(cell['measured'])}" for cell in cells]
            lines.append(f"| {' | '.join([code, str(epoch), *words])} |")
    return lines


def figure(value: float) -> str:
    """Three digits."""
    return f"{value:.3f}" if value >= 0.1 else f"{value:.2g}"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.code_error", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    rows = measured(options.seed)
    print("\n".join(table(rows)))
    run = {"graph": GRAPH, "workers": WORKERS, "epochs": EPOCHS, "hidden": HIDDEN, "seed": options.seed}
    options.out.write_text(json.dumps(run | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
