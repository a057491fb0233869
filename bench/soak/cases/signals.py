"""Signals that end a run: Ctrl-C, SIGTERM, a closed terminal, and a second Ctrl-C while workers do not move."""

from __future__ import annotations

import re
import signal
import time
from functools import partial

from bench.soak.ground import Case, Ground
from bench.soak.outcome import BadEndError
from bench.soak.program import send
from bench.soak.result import saved_epoch
from bench.soak.subject import EXACT, SUBJECTS

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
TWICE = "second Ctrl-C, workers stand still"
SOON = 5.0
"""Seconds in which the second Ctrl-C ends a run, whatever the workers do."""


def stopped(ground: Ground, numbers: tuple[signal.Signals, ...]) -> None:
    """A run that a signal ends, that goes on, that the next signal ends, and so on."""
    program = ground.start()
    for number, target in zip(numbers, ground.targets(len(numbers)), strict=True):
        done = ground.reach(program, max(target, saved_epoch(ground.run) + 1))
        fault = ground.fault(number.name)
        program.signal(number)
        end = program.wait()
        fault.detect = time.time() - fault.at
        line = ground.expect_line(end, [130], r"stopped with a checkpoint after epoch \d+")
        after = int(re.findall(r"after epoch (\d+)", line)[0])
        if after != saved_epoch(ground.run) or after < done:
            raise BadEndError("lost checkpoint", f"{done} epochs were done, the newest checkpoint has {after}: {line}")
        program = ground.recover(fault, done)
        fault.lost = 0
    ground.finish(program)


def twice(ground: Ground) -> None:
    """Ctrl-C, but the workers are kept from running; the second Ctrl-C ends them all the same."""
    program = ground.start()
    done = ground.reach(program, ground.targets(1)[0])
    workers = program.workers()
    fault = ground.fault(TWICE)
    program.signal(signal.SIGINT)
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        for worker in workers:
            send(worker, signal.SIGSTOP)
        time.sleep(0.005)
    second = time.time()
    program.signal(signal.SIGINT)
    ended = program.wait()
    fault.detect = time.time() - second
    ground.expect_line(ended, [130], "stopped|interrupted")
    if fault.detect > SOON:
        raise BadEndError("hang", f"the second Ctrl-C took {fault.detect:.1f} s")
    ground.finish(ground.recover(fault, done))


def cases() -> list[Case]:
    """All four signals for one recipe and for `fit`; two of them, by turns, for the others."""
    found = []
    for place, subject in enumerate(SUBJECTS.values()):
        some = (SIGNALS[place % 4], SIGNALS[(place + 1) % 4])
        numbers = SIGNALS if subject is EXACT or subject.own else some
        found.append(Case(f"signals-{subject.name}", subject, partial(stopped, numbers=numbers)))
    return found + [Case(f"twice-{name}", SUBJECTS[name], twice) for name in ("exact", "gnnpipe", "fit")]
