"""SIGSTOP: workers that stand still for a while, or until the deadline has passed."""

from __future__ import annotations

import signal
import time

from bench.soak.cases.kill import again
from bench.soak.ground import Case, Ground, for_all
from bench.soak.outcome import BadEndError
from bench.soak.program import resumed_after, send
from bench.soak.result import epochs_done
from bench.soak.subject import APART

SHORT = "SIGSTOP of workers or all, SIGCONT 0.2 to 2 s later"
LONG = "SIGSTOP of a worker for ever"
DEADLINE = "8"


def stops(ground: Ground) -> None:
    """Three times some processes stand still for a moment; then a worker for ever, and all are started again."""
    program = ground.start("--max-restarts", "3", "--deadline", DEADLINE)
    *short, last = ground.targets(4)
    for target in short:
        ground.reach(program, target)
        workers = program.workers()
        victims = ground.random.sample(workers, ground.random.randint(1, len(workers)))
        victims += [program.pid] * ground.random.randint(0, 1)
        fault = ground.fault(SHORT)
        for pid in victims:
            send(pid, signal.SIGSTOP)
        time.sleep(ground.random.uniform(0.2, 2.0))
        done = epochs_done(ground.run)
        for pid in victims:
            send(pid, signal.SIGCONT)
        continued = time.time()
        if not program.wait_for("epochs", lambda done=done: epochs_done(ground.run) > done):  # type: ignore[misc]
            raise BadEndError("not as expected", f"the run ended: {program.said}")
        fault.recover, fault.lost = time.time() - continued, 0
    if "started again" in program.said:
        raise BadEndError("not as expected", f"a short stop restarted the workers: {program.said}")
    done = ground.reach(program, max(last, epochs_done(ground.run)))
    before = program.workers()
    fault = ground.fault(LONG)
    send(ground.random.choice(before), signal.SIGSTOP)
    fault.detect, fault.recover = again(program, before, fault.at, ground)
    program.wait_for("word of the restart", lambda: "started again" in program.said)
    fault.lost = max(0, done - resumed_after(program.said))
    ground.finish(program)


def cases() -> list[Case]:
    """All ways of moving rows."""
    return for_all("stop", APART, stops, beside=True)
