"""NaN and infinity: learning rates that diverge, and a weight that goes bad on one worker."""

from __future__ import annotations

import json
import re

from bench.soak.ground import Case, Ground, for_all
from bench.soak.outcome import REFUSED, SURVIVED, BadEndError
from bench.soak.result import events, saved_epoch
from bench.soak.subject import SUBJECTS

STOPS = "diverging learning rate, --on-nan stop, then --resume with a lower one"
WEIGHT = "a weight becomes NaN, --on-nan stop"
LOWERS = "a weight becomes NaN, --on-nan resume-lower-lr"
WARM = ("--optim.schedule", "step", "--optim.step-every", "40", "--optim.step-factor", "1e30")
"""A learning rate that is too large from epoch 40 on."""


def stops(ground: Ground) -> None:
    """The run ends in the epoch of the first NaN, and goes on from its checkpoint with a lower learning rate."""
    fault = ground.fault(STOPS)
    end = ground.start(*WARM, "--optim.lr", "0.01").wait()
    fault.detect = None
    line = ground.expect_line(end, [1], r"epoch 4\d: ", "not finite|infinit|NaN|nan", "optim.lr")
    kept = saved_epoch(ground.run)
    said = re.findall(r"checkpoint after epoch (\d+)", line)
    if not kept or said != [str(kept)]:
        raise BadEndError("lost checkpoint", f"the newest checkpoint is of epoch {kept}: {line}")
    at = int(re.findall(r"epoch (\d+):", line)[0])
    program, fault.recover = ground.resume(*WARM, "--optim.lr", "1e-300")
    _finite(ground, program.wait().code)
    fault.lost, fault.outcome = at - kept, REFUSED


def poisoned(ground: Ground) -> None:
    """A weight of one worker becomes NaN: the run ends there, and a resumed one ends as if it had not happened."""
    fault = ground.fault(WEIGHT)
    program = ground.start(env={"SOAK_NAN": str(ground.targets(1)[0])})
    ground.refused_each(fault, program, [1], "not finite", "rank 1", "second")
    again, fault.recover = ground.resume()
    ground.finish(again)
    fault.detect = None


def lowers(ground: Ground) -> None:
    """The same, but the run goes back by itself to its last checkpoint, with half the learning rate, and ends well."""
    fault = ground.fault(LOWERS)
    program = ground.start("--on-nan", "resume-lower-lr", env={"SOAK_NAN": str(ground.targets(1)[0])})
    end = program.wait()
    if end.code != 0:
        raise BadEndError("wrong exit code", f"{end.code}: {end.said[-500:]}")
    _finite(ground, 0)
    lowered = json.loads((ground.run / "summary.json").read_text())["lowered"]
    if lowered != 1 or "times the learning rate" not in end.said:
        raise BadEndError("not as expected", f"the learning rate was lowered {lowered} times: {end.said[-500:]}")
    fault.outcome = SURVIVED


def _finite(ground: Ground, code: int) -> None:
    """The run has finished, and all its losses are numbers."""
    if code != 0:
        raise BadEndError("wrong exit code", f"{code} instead of 0 at the end")
    losses = [event["loss"] for event in events(ground.run) if event["event"] == "epoch"]
    epochs = json.loads((ground.run / "summary.json").read_text())["epochs"]
    if len(losses) != epochs or None in losses:
        raise BadEndError("wrong result", f"{len(losses)} losses of {epochs} epochs, {losses.count(None)} not finite")


def cases() -> list[Case]:
    """Graph parallelism, compressed and late, and the pipeline; the weight is one of a model of one's own."""
    some = [SUBJECTS[name] for name in ("exact", "sylvie-a", "halowire", "gnnpipe")]
    own = [SUBJECTS["fit"]]
    return [
        *for_all("nan-stop", some, stops),
        *for_all("nan-weight", own, poisoned),
        *for_all("nan-lower", own, lowers),
    ]
