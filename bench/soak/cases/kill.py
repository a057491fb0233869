"""kill -9: of workers, of the launcher, of everything at once, and while the workers still start."""

from __future__ import annotations

import signal
import time

from bench.soak.ground import Case, Ground, for_all
from bench.soak.outcome import BadEndError
from bench.soak.program import Program, alive, resumed_after, send
from bench.soak.result import epochs_done, last_start
from bench.soak.subject import APART, EXACT

WORKER = "kill -9 of a worker"
LAUNCHER = "kill -9 of the launcher"
EVERYTHING = "kill -9 of everything at once"
STARTING = "kill -9 while workers start"


def again(program: Program, before: list[int], at: float, run: Ground) -> tuple[float, float]:
    """Seconds from ``at`` until other workers than ``before`` were started, and until they trained."""
    program.wait_for("new workers", lambda: bool(program.workers()) and not set(before) & set(program.workers()))
    detected = time.time() - at
    if not program.wait_for("new epochs", lambda: last_start(run.run) > at):
        raise BadEndError("wrong exit code", f"the run ended instead of starting again: {program.said[-500:]}")
    return detected, last_start(run.run) - at


def workers(ground: Ground) -> None:
    """One worker after another is killed at random moments; the launcher starts all again."""
    program = ground.start("--max-restarts", "20")
    for target in ground.targets(3 if ground.subject.workers > 2 else 6):
        done = ground.reach(program, max(target, epochs_done(ground.run)))
        before = program.workers()
        fault = ground.fault(WORKER)
        send(ground.random.choice(before), signal.SIGKILL)
        fault.detect, fault.recover = again(program, before, fault.at, ground)
        program.wait_for("word of the restart", lambda: "going on" in program.said or "no checkpoint" in program.said)
        fault.lost = max(0, done - resumed_after(program.said))
    ground.finish(program)


def launcher(ground: Ground) -> None:
    """The launcher is killed, its workers end with a checkpoint; then all are killed at once, as by a power cut."""
    program = ground.start()
    first, second = ground.targets(2)
    done = ground.reach(program, first)
    before = program.workers()
    fault = ground.fault(LAUNCHER)
    send(program.pid, signal.SIGKILL)
    program.process.wait()
    end = time.monotonic() + 60
    while any(map(alive, before)):
        if time.monotonic() > end:
            raise BadEndError("hang", "the workers of a killed launcher live on")
        time.sleep(0.02)
    fault.detect = time.time() - fault.at
    program = ground.recover(fault, done)
    done = ground.reach(program, second)
    fault = ground.fault(EVERYTHING)
    for pid in [program.pid, *program.workers()]:
        send(pid, signal.SIGKILL)
    program.process.wait()
    fault.detect = 0.0
    ground.finish(ground.recover(fault, done))


def starting(ground: Ground) -> None:
    """Workers or the launcher are killed before the first epoch; the same command, or --resume, goes on."""
    for _ in range(2):
        program = ground.start("--overwrite")
        program.wait_for("workers", lambda p=program: bool(p.workers()))  # type: ignore[misc]
        time.sleep(ground.random.uniform(0.0, 2.5))
        fault = ground.fault(STARTING)
        victims = [program.pid, *program.workers()]
        if not send(ground.random.choice(victims), signal.SIGKILL):
            raise BadEndError("not as expected", "it had ended already")
        program.process.wait(60)
        fault.detect = time.time() - fault.at
        if program.process.returncode != -signal.SIGKILL:
            ground.expect_line(program.wait(), [1], "was killed by SIGKILL")
        program, fault.recover = ground.resume()
        fault.lost = 0
        ground.finish(program)


def cases() -> list[Case]:
    """All ways of moving rows; the start is the same for all, so one of them does for it."""
    return [
        *for_all("kill-workers", APART, workers),
        *for_all("kill-launcher", APART, launcher),
        *for_all("kill-start", [EXACT], starting),
    ]
