"""NaN and infinity: learning rates that diverge."""

from __future__ import annotations

import json
import re

from bench.soak.ground import Case, Ground, for_all
from bench.soak.outcome import REFUSED, SURVIVED, BadEndError
from bench.soak.result import events, saved_epoch
from bench.soak.subject import COMMANDS, SUBJECTS

STOPS = "diverging learning rate, --on-nan stop, then --resume with a lower one"
LOWERS = "diverging learning rate, --on-nan resume-lower-lr"
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


def lowers(ground: Ground) -> None:
    """The run goes back by itself to its last checkpoint, with half the learning rate, and ends well."""
    fault = ground.fault(LOWERS)
    warm = (*WARM[:-1], "300")  # times 300: after halving it up to 5 times it is 10 times the first, which still learns
    program = ground.start(*warm, "--optim.lr", "0.01", "--epochs", "79", "--on-nan", "resume-lower-lr")
    end = program.wait()
    if end.code != 0:
        raise BadEndError("wrong exit code", f"{end.code}: {end.said[-500:]}")
    _finite(ground, 0)
    if not json.loads((ground.run / "summary.json").read_text())["lowered"]:
        raise BadEndError("not as expected", "nothing diverged")
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
    """Graph parallelism, compressed and late, and the pipeline."""
    some = [SUBJECTS[name] for name in ("exact", "sylvie-a", "halowire", "gnnpipe")]
    return [*for_all("nan-stop", some, stops), *for_all("nan-lower", COMMANDS[:2], lowers)]
