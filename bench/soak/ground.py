"""The ground of a case: its folder, its programs, the faults that it injects, and the checks of how all ends."""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.soak.outcome import REFUSED, SURVIVED, BadEndError, Fault, FinishedError
from bench.soak.program import LONGEST, End, Program, alive, marked, send
from bench.soak.result import compare, epochs_done, last_start, result_of, saved_epoch
from bench.soak.subject import GRAPH, Subject
from bench.soak.whole import Wholes, environment

NOTHING_THERE = r"holds no run to go on with"
SETTLE = 10.0
"""Seconds that processes get to disappear after their program has ended."""


@dataclass(frozen=True)
class Case:
    """``act`` injects faults into runs of ``subject``; ``beside``: it mostly waits, and runs beside the others."""

    id: str
    subject: Subject
    act: Callable[[Ground], None]
    beside: bool = False


class Ground:
    """Where a case works: ``folder``, with random numbers that depend on the seed and the case alone."""

    def __init__(self, case: Case, folder: Path, seed: int, wholes: Wholes) -> None:
        self.case = case
        self.subject = case.subject
        self.folder = folder
        self.run = folder / "run"
        self.runs = [self.run]
        self.temporary = folder / "tmp"
        self.random = random.Random(f"{seed} {case.id}")
        self.wholes = wholes
        self.faults: list[Fault] = []
        self.programs: list[Program] = []
        shutil.rmtree(folder, ignore_errors=True)
        self.temporary.mkdir(parents=True)

    def start(
        self,
        *more: str,
        run: Path | None = None,
        graph: str = GRAPH,
        workers: int | None = None,
        before: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> Program:
        """Start the subject's command with ``more`` flags; ``before``: words in front of it."""
        words = self.subject.words(run or self.run, *more, graph=graph, workers=workers)
        return self.begin([*before, *words], env)

    def begin(self, words: list[str], env: Mapping[str, str] | None = None) -> Program:
        """Start any command, with further variables ``env``."""
        program = Program(words, self.folder, environment(self.case.id, self.temporary) | dict(env or {}))
        self.programs.append(program)
        return program

    def fault(self, name: str) -> Fault:
        """A fault that is injected now; call this right before it."""
        self.faults.append(Fault(name, self.case.id, self.subject.name))
        return self.faults[-1]

    def targets(self, count: int, first: float = 0.05, last: float = 0.7) -> list[int]:
        """``count`` random epochs at which faults are injected, rising, within those shares of the run."""
        low, high = int(self.subject.epochs * first), int(self.subject.epochs * last)
        return sorted(self.random.sample(range(low, high), count))

    def reach(self, program: Program, epoch: int, run: Path | None = None) -> int:
        """Wait until the run has finished ``epoch`` epochs, and a random moment more; how many it has then."""
        if not program.wait_for(f"epoch {epoch}", lambda: epochs_done(run or self.run) >= epoch):
            raise BadEndError("not as expected", f"the run ended before epoch {epoch}: {program.said[-400:]}")
        if not program.runs and program.process.returncode == 0:
            raise FinishedError
        time.sleep(self.random.random() * 0.03)
        return epochs_done(run or self.run)

    def expect_line(self, end: End, codes: Sequence[int], *patterns: str) -> str:
        """The one line that the program said; raises unless exit code and line are as expected."""
        if end.code not in codes:
            raise BadEndError(
                "wrong exit code", f"{end.code} instead of {' or '.join(map(str, codes))}: {end.said[-500:]}"
            )
        if len(end.lines) != 1 or not end.lines[0].startswith("halowire: "):
            raise BadEndError("not as expected", f"expected one line, got {end.lines}")
        for pattern in patterns:
            if not re.search(pattern, end.lines[0]):
                raise BadEndError("not as expected", f"{end.lines[0]!r} does not say {pattern!r}")
        return end.lines[0]

    def resume(self, *more: str) -> tuple[Program, float]:
        """Do what a user does after a fault: go on, or begin anew where nothing was saved.

        Gives the program, and the seconds until its workers began to train.
        """
        program = self.start("--resume", *more)
        program.wait_for("start of training", lambda: last_start(self.run) > program.began)
        if not program.runs and re.search(NOTHING_THERE, program.said):
            if saved_epoch(self.run):
                raise BadEndError("lost checkpoint", f"a checkpoint is there, but: {program.said}")
            program = self.start("--overwrite", *more)
            program.wait_for("start of training", lambda: last_start(self.run) > program.began)
        return program, max(0.0, last_start(self.run) - program.began)

    def finish(self, program: Program, run: Path | None = None, gaps: bool = False) -> None:
        """Wait for the end, which must be that of the run without faults, bit for bit."""
        end = program.wait(LONGEST * 2)
        if end.code != 0:
            raise BadEndError("wrong exit code", f"{end.code} instead of 0 at the end: {end.said[-600:]}")
        self.compare(run or self.run, gaps=gaps)

    def compare(self, run: Path, *others: Path, gaps: bool = False) -> None:
        """The result must be that of the run without faults, which all faults so far have survived then."""
        compare(result_of(run, *others), self.wholes.result(self.subject), gaps)
        for fault in self.faults:
            fault.outcome = fault.outcome or SURVIVED

    def recover(self, fault: Fault, done: int) -> Program:
        """Go on after ``fault``, which found ``done`` epochs finished, and book what it cost."""
        saved = saved_epoch(self.run)
        program, fault.recover = self.resume()
        fault.lost = max(0, done - saved)
        fault.outcome = fault.outcome or SURVIVED
        return program

    def act(self) -> list[Fault]:
        """Run the case; a bad end counts for every fault of the case that has no end yet, or at least for one."""
        try:
            self._act()
            self._nothing_left()
        except BadEndError as bad:
            open_ones = [fault for fault in self.faults if not fault.outcome] or self.faults[-1:]
            if bad.kind == "wrong result":
                open_ones = [fault for fault in self.faults if fault.outcome != REFUSED] or self.faults
            for fault in open_ones or [self.fault("(before any fault)")]:
                fault.outcome, fault.words = bad.kind, bad.words
        finally:
            self._end_all()
        for fault in self.faults:
            fault.outcome = fault.outcome or SURVIVED
        return self.faults

    def _act(self) -> None:
        try:
            self.case.act(self)
        except FinishedError:
            self.compare(*self.runs)

    def refused_each(self, fault: Fault, program: Program, codes: Sequence[int], *patterns: str) -> str:
        """The program must refuse to go on, clearly and soon; nothing is lost by that."""
        saved = saved_epoch(self.run)
        end = program.wait()
        line = self.expect_line(end, codes, *patterns)
        if saved_epoch(self.run) < saved:
            raise BadEndError("lost checkpoint", f"epoch {saved} was saved, now it is {saved_epoch(self.run)}")
        fault.detect = max(0.0, program.began + end.seconds - fault.at)
        fault.outcome = REFUSED
        return line

    def _nothing_left(self) -> None:
        """Raise if processes, temporary folders, half-written files or locks are left."""
        end = time.monotonic() + SETTLE
        while (left := marked(self.case.id)) and time.monotonic() < end:
            time.sleep(0.05)
        if left:
            raise BadEndError("left over", f"{len(left)} processes")
        # torch and PyG keep caches there, also when nothing goes wrong.
        names = [path.name for path in self.temporary.glob("halowire*")]
        half = [path for path in self.run.rglob("*") if path.name.startswith(".") or ".tmp" in path.name]
        locks = list(self.folder.glob(".*.lock"))
        shared = [p for p in Path("/dev/shm").glob("*") if any(f"_{r.pid}_" in p.name for r in self.programs)]
        if names or half or locks or shared:
            raise BadEndError(
                "left over", f"{names + [str(path.relative_to(self.folder)) for path in half + locks]} {shared}"
            )

    def _end_all(self) -> None:
        for program in self.programs:
            if alive(program.pid):
                send(-program.pid, signal.SIGKILL)
        for pid in marked(self.case.id):
            send(pid, signal.SIGKILL)
        for program in self.programs:
            with contextlib.suppress(Exception):
                program.process.wait(10)


def for_all(name: str, subjects: Sequence[Subject], act: Callable[[Ground], None], beside: bool = False) -> list[Case]:
    """One case for each of the ``subjects``."""
    return [replace(Case(name, subject, act, beside), id=f"{name}-{subject.name}") for subject in subjects]
