"""Runs a user's program many times, by torchrun and by `halowire.fit`, and counts the runs that end cleanly.

A run ends cleanly if its exit code is 0, its workers trained, and nothing on standard error tells of a crash.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CRASHES = ("Traceback", "terminate called", "Fatal Python error", "Segmentation fault", "core dumped", "SIGABRT")
LONGEST = 300
PROGRAM = Path(__file__).with_name("program.py")
RESULT = Path(__file__).with_name("result.json")
WAYS = {
    "torchrun": ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(PROGRAM)],
    "fit": [str(PROGRAM), "fit"],
}
WORKERS = {"torchrun": 2, "fit": 1}
"""How often a run says that it trained."""


def main() -> int:
    """Run the program, print and keep the counts. Returns 0 if every run ended cleanly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="runs of each way")
    parser.add_argument("--beside", type=int, default=1, help="runs at the same time")
    parser.add_argument("--out", type=Path, default=RESULT, help="the file of the counts")
    given = parser.parse_args()
    counts = {way: {"runs": 0, "clean": 0} for way in WAYS}
    for way, count in counts.items():
        with ThreadPoolExecutor(given.beside) as pool:
            for reason in pool.map(failure, [way] * given.runs):
                count["runs"] += 1
                count["clean"] += not reason
                print(f"{way}, run {count['runs']}: {reason or 'clean'}", flush=True)
                given.out.write_text(json.dumps(counts) + "\n")
    return 0 if all(count["clean"] == given.runs for count in counts.values()) else 1


def failure(way: str) -> str:
    """Why a run did not end cleanly; empty where it did."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            ended = subprocess.run(
                [sys.executable, *WAYS[way]], cwd=folder, capture_output=True, text=True, timeout=LONGEST, check=False
            )
        except subprocess.TimeoutExpired:
            return f"did not end within {LONGEST} seconds"
    if ended.returncode or any(word in ended.stderr for word in CRASHES):
        return f"exit code {ended.returncode}, {ended.stderr[-2000:]}"
    trained = ended.stdout.count("trained")
    return "" if trained == WORKERS[way] else f"{trained} times trained, expected {WORKERS[way]}"


if __name__ == "__main__":
    sys.exit(main())
