"""``FOLDER RECIPE WORKERS STEP``: workers die at every ``STEP``-th fsync and rename of a run, or with 0 in 5 epochs.

A worker is killed with SIGKILL right before or right after the call, or while it runs a random epoch; then the run goes
on in new processes, and must end with the same bits as an uninterrupted one. Prints JSON: how many calls and kills,
and what went wrong.
"""

import ctypes
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from tests.support.recipe_case import config_of, recipe_trainer

from halowire import files
from halowire.training import Hooks, Silent, Trainer

FOLDER, RECIPE, WORKERS, STEP = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
LONGEST = 60.0
CALLS = ("fsync", "rename", "replace")
EPOCHS, EVERY = (6, 2) if STEP else (12, 3)


class Death(NamedTuple):
    """Which worker dies, and when: at a call that makes files last, or in an epoch."""

    rank: int = -1
    call: int = 0
    before: bool = False
    epoch: int = -1


NONE = Death()


def digest(trainer: Trainer) -> str:
    """Of the weights that this worker trains: of those of other stages it holds what it began with."""
    found = hashlib.sha256()
    for state in (trainer.model.state_dict(), trainer.progress.best_weights):
        for name in sorted(trainer.runner.parameters):
            found.update(state[name].numpy().tobytes())
    return found.hexdigest()


def watch_calls(at: int, before: bool) -> list[int]:
    """Count the calls that make files last, exchanges of folders included; die at call ``at``."""
    count = [0]

    def watched(function):
        def call(*args, **more):
            count[0] += 1
            if before and count[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*args, **more)
            if count[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for name in CALLS:
        setattr(os, name, watched(getattr(os, name)))
    files._exchange = watched(files._exchange)
    return count


def work(rank: int, run: Path, resume: bool, death: Death) -> None:
    torch.set_num_threads(1)
    if WORKERS > 1:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        store = dist.FileStore(str(run.with_suffix(f".store-{int(resume)}")), WORKERS)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=WORKERS, timeout=timedelta(seconds=LONGEST))
    settings = {"model__hidden": 4, "epochs": EPOCHS, "eval__every": 2, "checkpoint__every": EVERY}
    trainer = recipe_trainer(rank, str(run), config_of(RECIPE, **settings))
    if resume:
        trainer.resume()
    mine = death if death.rank == rank else NONE

    def die() -> bool:
        if trainer.progress.epoch == mine.epoch:
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    count = watch_calls(mine.call, mine.before)
    trainer.run(Hooks(Silent(), should_stop=die))
    run.with_suffix(f".result-{rank}").write_text(json.dumps([digest(trainer), count[0]]))


def start(run: Path, resume: bool = False, death: Death = NONE) -> list[list]:
    """Run all workers in processes of their own; returns what those say that came to their end."""
    for path in run.parent.glob(f"{run.name}.*"):
        path.unlink()
    files.remove_unfinished(run)  # as the launcher does when it locks the folder
    pids = {}
    for rank in range(WORKERS):
        if not (pid := os.fork()):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            code = 1
            try:
                work(rank, run, resume, death)
                code = 0
            except BaseException as error:
                run.with_suffix(f".error-{rank}").write_text(repr(error))
            os._exit(code)
        pids[pid] = rank
    end = time.monotonic() + LONGEST
    while pids and time.monotonic() < end:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            pids.pop(pid)
            if status and death.rank >= 0:  # the launcher ends the others, too
                for other in pids:
                    os.kill(other, signal.SIGKILL)
        else:
            time.sleep(0.005)
    assert not pids, "a worker hangs"
    results = [run.with_suffix(f".result-{rank}") for rank in range(WORKERS)]
    return [json.loads(path.read_text()) for path in results if path.exists()]


def deaths(calls: list[int]) -> list[Death]:
    """All deaths to try, given how many calls every worker makes in a whole run."""
    if not STEP:
        chance = random.Random(f"{RECIPE} {WORKERS}")
        return [Death(chance.randrange(WORKERS), epoch=epoch) for epoch in chance.sample(range(1, EPOCHS), 5)]
    points = ((rank, call) for rank in range(WORKERS) for call in range(1 + (STEP > 1), calls[rank] + 1, STEP))
    return [Death(*point, before) for point in points for before in (True, False)]


def main() -> None:
    whole = start(FOLDER / "whole")
    calls = [one[1] for one in whole]
    bad, kills = [], 0
    for number, death in enumerate(deaths(calls)):
        run = FOLDER / f"run-{number}"
        kills += len(start(run, death=death)) < WORKERS
        got = start(run, resume=(run / "checkpoints").exists())
        if [one[0] for one in got] != [one[0] for one in whole]:
            errors = [path.read_text() for path in FOLDER.glob(f"{run.name}.error-*")]
            bad.append(f"{death}: {errors or 'other bits'}")
        if left := [path.name for path in run.rglob("*tmp*")]:
            bad.append(f"{death}: left over: {left}")
        shutil.rmtree(run)
    print(json.dumps({"calls": calls, "kills": kills, "bad": bad}))


main()
