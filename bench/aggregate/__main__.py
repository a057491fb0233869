"""Prints the table of native aggregation against torch's CSR product and writes result.json; see README.md."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from halowire.kernels import kernels_in_use, simd_level

RESULT = Path(__file__).with_name("result.json")
ROOT = Path(__file__).parents[2]


def measured(options: argparse.Namespace, threads: int) -> dict[str, Any]:
    """What ``measure.py`` found with this many threads."""
    command = [sys.executable, "-m", "bench.aggregate.measure", f"--threads={threads}"]
    command += [f"--nodes={options.nodes}", f"--edges={options.edges}", f"--repeats={options.repeats}"]
    command += ["--columns", *map(str, options.columns)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def rows(run: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per width and kind of pages; torch counts with the faster of its two index types."""
    table = []
    for columns, seconds in run["seconds"].items():
        for pages in ("ordinary", "huge"):
            rivals = {kind: seconds[f"torch {kind} {pages}"] for kind in ("int32", "int64")}
            native = seconds[f"native {pages}"]
            row = {"threads": run["threads"], "columns": int(columns), "pages": pages, "native_seconds": native}
            row |= {f"torch_{kind}_seconds": value for kind, value in rivals.items()}
            table.append(row | {"times_as_fast": min(rivals.values()) / native})
    return table


def processor() -> str:
    """The processor's name where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def main() -> None:
    """Measure, print, write; the exit code is 1 if the claim does not hold."""
    parser = argparse.ArgumentParser(prog="python -m bench.aggregate", description=__doc__)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    table = [row for threads in options.threads for row in rows(measured(options, threads))]
    print("| threads | columns | pages | native | torch int32 | torch int64 | times as fast |")
    print("| ---: | ---: | --- | ---: | ---: | ---: | ---: |")
    for row in table:
        keys = ("native_seconds", "torch_int32_seconds", "torch_int64_seconds")
        cells = [str(row[key]) for key in ("threads", "columns", "pages")]
        cells += [f"{row[key] * 1e3:.0f} ms" for key in keys]
        print(f"| {' | '.join(cells)} | {row['times_as_fast']:.2f} |")
    holds = all(row["times_as_fast"] >= (1.3 if row["threads"] == 1 else 1.0) for row in table)
    machine = {"processor": processor(), "torch": torch.__version__, "kernels": kernels_in_use(), "simd": simd_level()}
    size = {"nodes": options.nodes, "edges": options.edges, "repeats": options.repeats}
    options.out.write_text(json.dumps({"holds": holds, **machine, **size, "rows": table}, indent=1) + "\n")
    print(f"\nat least 1.3 at 1 thread and 1.0 at more: {'yes' if holds else 'NO'}")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
