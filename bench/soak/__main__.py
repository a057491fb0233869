"""Injects faults into real runs and compares how they end with runs without faults; see README.md."""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.netlab import possible
from bench.netlab.interrupts import raising
from bench.soak.cases import all_cases
from bench.soak.ground import Case, Ground
from bench.soak.outcome import BAD
from bench.soak.program import marked, send
from bench.soak.table import Record, table, totals, write_between
from bench.soak.whole import Wholes

ROOT = Path(__file__).parents[2]
WORK = ROOT / "runs" / "soak"
RESULT = Path(__file__).with_name("result.json")
LANES = 2
LONGEST_WORDS = 500
SPARE = 2.5
"""Minutes before the end of the time after which no case is begun."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    made.add_argument("--seed", type=int, default=0, help="of all random moments and places (0)")
    made.add_argument("--minutes", type=float, default=25.0, help="time for all; the same command goes on later (25)")
    made.add_argument(
        "--lanes", type=int, default=LANES, help=f"cases at a time, beside those that mostly wait ({LANES})"
    )
    made.add_argument("--only", nargs="+", metavar="ID", help="inject only these again: whole names or beginnings")
    made.add_argument("--fresh", action="store_true", help="forget what was found before")
    made.add_argument("--list", action="store_true", help="print the names of all cases")
    made.add_argument("--table", action="store_true", help="write the table into docs/reliability.md; inject nothing")
    made.add_argument("--work", type=Path, default=WORK, help="folder for runs (runs/soak)")
    made.add_argument(
        "--out", type=Path, default=RESULT, help="the faults and how they ended (result.json beside this)"
    )
    return made


def code_digest() -> str:
    """A digest of halowire's code and the soak's: what was found with another one says nothing of this one."""
    digest = hashlib.sha256()
    for file in sorted([*(ROOT / "src").rglob("*.py"), *Path(__file__).parent.rglob("*.py")]):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


class Soak:
    """The cases that were injected so far, kept in the work folder after each of them."""

    def __init__(self, folder: Path, seed: int, fresh: bool) -> None:
        self._folder = folder / f"seed-{seed}-{code_digest()}"
        self._seed = seed
        if fresh:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file = self._folder / "found.json"
        self.found: dict[str, list[Record]] = json.loads(self._file.read_text()) if self._file.exists() else {}
        self._wholes = Wholes(self._folder)
        self._lock = threading.Lock()
        self.begun = time.monotonic()

    def inject(self, case: Case) -> None:
        """Run one case and keep what became of it."""
        start = time.monotonic()
        ground = Ground(case, self._folder / case.id, self._seed, self._wholes)
        faults = [fault.record() for fault in ground.act()]
        bad = [fault for fault in faults if fault["outcome"] in BAD]
        with self._lock:
            self.found[case.id] = faults
            temporary = self._file.with_suffix(".tmp")
            temporary.write_text(json.dumps(self.found, indent=1))
            temporary.replace(self._file)
            ends = ", ".join(sorted({fault["outcome"] for fault in faults}))
            now = (time.monotonic() - self.begun) / 60
            print(
                f"{now:5.1f} min  {case.id}: {len(faults)} faults in {time.monotonic() - start:.0f} s: {ends}",
                flush=True,
            )
            for fault in bad[:1]:
                print(f"           {fault['words'][:LONGEST_WORDS]}", flush=True)
        if not bad:
            shutil.rmtree(ground.folder, ignore_errors=True)


def run_all(soak: Soak, cases: Sequence[Case], lanes: int, minutes: float) -> list[str]:
    """Inject all ``cases`` that the time allows; the names of those that are left."""
    left = []

    def inject(case: Case) -> None:
        if (time.monotonic() - soak.begun) / 60 > minutes - SPARE:
            left.append(case.id)
        else:
            soak.inject(case)

    with raising(), ThreadPoolExecutor(lanes) as busy, ThreadPoolExecutor(1) as beside:
        works = [(beside if case.beside else busy).submit(inject, case) for case in cases]
        try:
            for work in works:
                work.result()
        except (KeyboardInterrupt, SystemExit):
            # The threads wait for programs, which are ended here; what was found so far is kept.
            for pid in marked():
                send(pid, signal.SIGKILL)
            os._exit(130)
    return left


def main(arguments: Sequence[str] | None = None) -> int:
    """Inject, print the table, and tell by the exit code whether every fault ended well."""
    options = parser().parse_args(arguments)
    cases = all_cases()
    if options.list:
        print("\n".join(case.id for case in cases))
        return 0
    if options.table:
        write_between("soak", table(json.loads(options.out.read_text())["faults"]))
        return 0
    if reason := possible():
        print(f"soak: {reason}", file=sys.stderr)
        return 2
    options.work.mkdir(parents=True, exist_ok=True)
    lock = os.open(options.work, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it ends with this process
    except BlockingIOError:
        print(f"soak: another soak works in {options.work}; wait for it, or give another --work", file=sys.stderr)
        return 2
    soak = Soak(options.work, options.seed, options.fresh)
    only = tuple(options.only or ())
    wanted = [case for case in cases if case.id.startswith(only)] if only else cases
    if not wanted:
        print(f"soak: no case begins with {' or '.join(only)}; --list prints all names", file=sys.stderr)
        return 2
    wanted = [case for case in wanted if only or case.id not in soak.found]
    left = run_all(soak, wanted, options.lanes, options.minutes)
    faults = [fault for case in cases for fault in soak.found.get(case.id, [])]
    return report(faults, left, options.seed, None if only else options.out)


def report(faults: list[Record], left: list[str], seed: int, out: Path | None) -> int:
    """Print the table, every bad end with the command that repeats it, and what is left to do."""
    if out is not None:
        out.write_text(json.dumps({"seed": seed, "faults": faults}, indent=1) + "\n")
    print(f"\n{table(faults)}\n")
    bad = [fault for fault in faults if fault["outcome"] in BAD]
    for fault in {fault["case"]: fault for fault in reversed(bad)}.values():
        print(f"bad: {fault['name']} ({fault['recipe']}): {fault['outcome']}: {fault['words'][:LONGEST_WORDS]}")
        print(f"     python -m bench.soak --seed {seed} --only {fault['case']}")
    if left:
        print(f"not injected, for lack of time: {', '.join(left)}; the same command goes on with them")
    print(totals(faults))
    return 1 if bad or left else 0


if __name__ == "__main__":
    sys.exit(main())
