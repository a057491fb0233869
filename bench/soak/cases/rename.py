"""kill -9 at every rename and fsync of a checkpoint: the process ends itself there (``hook/sitecustomize.py``)."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from pathlib import Path

from bench.soak.ground import Case, Ground, for_all
from bench.soak.outcome import BadEndError
from bench.soak.program import LONGEST, resumed_after
from bench.soak.result import events
from bench.soak.subject import SUBJECTS
from bench.soak.whole import calls_of_one_checkpoint

RENAME = "kill -9 at a rename of a checkpoint"
FSYNC = "kill -9 at an fsync of a checkpoint"
MOST = 6
"""Faults of one case."""
Plan = list[tuple[int, int, str]]
"""For every start of the workers: which rank ends itself at which of its calls, before it or after it."""


def plan_of(ground: Ground) -> Plan:
    """Every call of the second checkpoint after a start, by every rank; renames first if there are too many."""
    renames, others = [], []
    for rank, calls in sorted(ground.wholes.calls(ground.subject).items()):
        size = calls_of_one_checkpoint(calls, ground.subject.epochs)
        for place in range(size, min(2 * size, len(calls))):
            if calls[place] == "fsync":
                others.append((rank, place + 1, "before"))
            else:
                renames += [(rank, place + 1, "before"), (rank, place + 1, "after")]
    ground.random.shuffle(renames)
    ground.random.shuffle(others)
    return (renames + others)[:MOST]


@dataclass(frozen=True)
class Killed:
    """A process that ended itself: when, at which call, and at the checkpoint of which epoch (0: its name has none)."""

    at: float
    call: str
    epoch: int


def killed(file: Path) -> list[Killed]:
    """The processes that ended themselves."""
    found = []
    for line in file.read_text().splitlines() if file.exists() else ():
        kind, at, _, _, call, path = line.split(" ", 5)
        if kind == "killed":
            epoch = re.search(r"epoch-(\d+)", path)
            found.append(Killed(float(at), call, int(epoch[1]) if epoch else 0))
    return found


def renames(ground: Ground) -> None:
    """One run that is killed at every call of the plan, and started again by the launcher every time."""
    plan, file = plan_of(ground), ground.folder / "calls.txt"
    if not plan:
        raise BadEndError("not as expected", "no rename of a checkpoint was seen in the run without faults")
    variables = {"SOAK_CALLS": str(file), "SOAK_PLAN": json.dumps(plan)}
    program = ground.start("--max-restarts", str(len(plan) + 1), env=variables)
    starts: set[float] = set()

    def ended() -> bool:
        starts.update(event["time"] for event in events(ground.run) if event["event"] == "start")
        return not program.runs

    program.wait_for("end", ended, LONGEST * 3)
    went_on = [resumed_after(line) for line in program.said.splitlines() if "started again" in line]
    for kill, epoch in itertools.zip_longest(killed(file), went_on):
        if kill is None:
            raise BadEndError("not as expected", f"a worker ended that was not killed: {program.said[-500:]}")
        fault = ground.fault(FSYNC if kill.call == "fsync" else RENAME)
        fault.recover = min((start - kill.at for start in starts if start > kill.at), default=None)
        fault.lost = max(0, kill.epoch - epoch) if kill.epoch and epoch is not None else None
    ground.finish(program)
    if len(ground.faults) < len(plan):
        raise BadEndError("not as expected", f"{len(ground.faults)} of {len(plan)} planned kills happened")


def cases() -> list[Case]:
    """All recipes."""
    return for_all("kill-rename", list(SUBJECTS.values()), renames)
