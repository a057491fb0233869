"""Two runs in one folder, and --resume with another number of workers."""

from __future__ import annotations

import json
import signal
from functools import partial

from bench.soak.ground import Case, Ground, for_all
from bench.soak.outcome import SURVIVED, BadEndError
from bench.soak.program import send
from bench.soak.result import epochs_done, events, saved_epoch
from bench.soak.subject import EXACT, SUBJECTS

TWO = "a second run in the same folder"
OTHERS = "another number of workers on --resume"
NEAR = 0.25
"""How far the last loss may be from that of the run without the change: dropout of other workers is other dropout."""


def two_runs(ground: Ground) -> None:
    """A second run is started in the folder of one that is under way; it is refused, the first does not mind."""
    program = ground.start()
    for flags, target in zip((("--resume",), ("--overwrite",)), ground.targets(2, last=0.4), strict=True):
        ground.reach(program, max(target, epochs_done(ground.run)))
        workers = program.workers()
        for worker in workers:
            send(worker, signal.SIGSTOP)  # it would have finished before the other has started
        fault = ground.fault(TWO)
        ground.refused_each(fault, ground.start(*flags), [2], "is in use by process")
        for worker in workers:
            send(worker, signal.SIGCONT)
        fault.lost = 0
    ground.finish(program)


def other_workers(ground: Ground, workers: int) -> None:
    """A stopped run is resumed by another number of workers: the graph is cut again, weights carry over."""
    ground.wholes.half(ground.subject, ground.run)
    saved = saved_epoch(ground.run)
    fault = ground.fault(OTHERS)
    program = ground.start("--resume", workers=workers)
    end = program.wait()
    fault.detect = end.seconds
    if end.code == 2:
        ground.refused_each(fault, program, [2], "workers|parts|mesh")
        again, fault.recover = ground.resume()
        ground.finish(again)
        return
    if end.code != 0:
        raise BadEndError("wrong exit code", f"{end.code}: {end.said[-500:]}")
    losses = {event["epoch"]: event["loss"] for event in events(ground.run) if event["event"] == "epoch"}
    whole = ground.wholes.result(ground.subject)
    for epoch in range(saved - 1):
        if json.dumps(losses.get(epoch)) != whole[f"loss of epoch {epoch}"]:
            raise BadEndError("wrong result", f"the loss of epoch {epoch}, before the change, is {losses.get(epoch)}")
    last = ground.subject.epochs - 1
    wanted = json.loads(whole[f"loss of epoch {last}"])
    if sorted(losses) != list(range(last + 1)) or abs(losses[last] - wanted) > NEAR * wanted:
        raise BadEndError("wrong result", f"the last loss is {losses.get(last)}, with the same workers {wanted}")
    fault.lost, fault.outcome = 0, SURVIVED


def cases() -> list[Case]:
    """Some recipes of each kind."""
    some = [SUBJECTS[name] for name in ("exact", "halowire", "gnnpipe", "fit")]
    found = for_all("two-runs", some, two_runs)
    for name, workers in (("exact", 3), ("halowire", 1), ("sylvie-a", 3), ("sylvie-a-saving", 3)):
        found.append(Case(f"workers-{name}", SUBJECTS[name], partial(other_workers, workers=workers)))
    return [*found, Case("workers-one-exact", EXACT, partial(other_workers, workers=1))]
