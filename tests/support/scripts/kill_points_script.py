"""``FOLDER RECIPE WORKERS STEP``: workers die at every ``STEP``-th fsync and rename of a run.

A worker is killed with SIGKILL right before or right after the call; then the run goes on in new processes, and must
end with the same bits as an uninterrupted one. Prints JSON: the number of calls, of kills, and what went wrong.
"""

import ctypes
import hashlib
import json
import os
import shutil
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from tests.support.recipe_case import config_of, recipe_trainer

from halowire import files
from halowire.training import Trainer

FOLDER, RECIPE, WORKERS, STEP = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
LONGEST = 60.0
CALLS = ("fsync", "rename", "replace")


def digest(trainer: Trainer) -> str:
    found = hashlib.sha256()
    for state in (trainer.model.state_dict(), trainer.progress.best_weights):
        for name in sorted(state):
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


def work(rank: int, run: Path, resume: bool, at: int, before: bool) -> None:
    torch.set_num_threads(1)
    if WORKERS > 1:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        store = dist.FileStore(str(run.with_suffix(f".store-{int(resume)}")), WORKERS)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=WORKERS, timeout=timedelta(seconds=LONGEST))
    trainer = recipe_trainer(rank, str(run), config_of(RECIPE, model__hidden=4, epochs=6, checkpoint__every=2))
    if resume:
        trainer.resume()
    count = watch_calls(at, before)
    trainer.run()
    run.with_suffix(f".result-{rank}").write_text(json.dumps([digest(trainer), count[0]]))


def start(run: Path, resume: bool = False, dies: int = 0, at: int = 0, before: bool = True) -> list[list]:
    """Run all workers in processes of their own; returns what those say that came to their end."""
    for path in run.parent.glob(f"{run.name}.*"):
        path.unlink()
    pids = {}
    for rank in range(WORKERS):
        if not (pid := os.fork()):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            code = 1
            try:
                work(rank, run, resume, at if rank == dies else 0, before)
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
            if status and at:  # the launcher ends the others, too
                for other in pids:
                    os.kill(other, signal.SIGKILL)
        else:
            time.sleep(0.005)
    assert not pids, "a worker hangs"
    results = [run.with_suffix(f".result-{rank}") for rank in range(WORKERS)]
    return [json.loads(path.read_text()) for path in results if path.exists()]


def main() -> None:
    whole = start(FOLDER / "whole")
    bad, kills = [], 0
    for dies in range(WORKERS):
        for at in range(1 + (STEP > 1), whole[dies][1] + 1, STEP):
            for before in (True, False):
                run = FOLDER / f"run-{dies}-{at}-{int(before)}"
                kills += len(start(run, dies=dies, at=at, before=before)) < WORKERS
                resume = (run / "checkpoints").exists()
                got = start(run, resume=resume)
                if [one[0] for one in got] != [one[0] for one in whole]:
                    errors = [path.read_text() for path in FOLDER.glob(f"{run.name}.error-*")]
                    bad.append(f"rank {dies}, call {at}, {'before' if before else 'after'}: {errors or 'other bits'}")
                if left := [path.name for path in run.rglob("*tmp*") if "jsonl" not in path.name]:
                    bad.append(f"left over: {left}")
                shutil.rmtree(run)
    print(json.dumps({"calls": [one[1] for one in whole], "kills": kills, "bad": bad}))


main()
