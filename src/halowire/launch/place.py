"""The place of a worker: its rank among the workers, its threads, and the folder of its run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from halowire.errors import InputError, PlaceError
from halowire.launch.folder_lock import lock_file
from halowire.training import holds_run

WORKERS_PER_CORE = 16
FEWEST_ALLOWED = 256
"""A machine may run so many workers however few cores it has, for trials."""

MOST_DIGITS = 9
"""Digits of the largest number in a launcher's variable: larger ones do not fit into torch's integers."""


@dataclass(frozen=True)
class Place:
    """The place of this process among the workers."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    restarts: int

    @staticmethod
    def here() -> Place:
        """The place that torchrun's environment variables give; without them this process is the only worker."""
        place = Place(
            rank=whole_variable("RANK", 0),
            size=whole_variable("WORLD_SIZE", 1),
            local_rank=whole_variable("LOCAL_RANK", 0),
            local_size=whole_variable("LOCAL_WORLD_SIZE", 1),
            restarts=whole_variable("TORCHELASTIC_RESTART_COUNT", 0),
        )
        _refuse_half(place)
        _refuse_number("RANK", place.rank, "WORLD_SIZE", place.size)
        # Without LOCAL_WORLD_SIZE, which not every launcher sets, this machine's workers are not counted.
        if "LOCAL_WORLD_SIZE" in os.environ:
            _refuse_number("LOCAL_RANK", place.local_rank, "LOCAL_WORLD_SIZE", place.local_size)
        return place


def _refuse_half(place: Place) -> None:
    """Refuse to be one of several workers without knowing which one, or of how many: it would train alone."""
    rank, size = "RANK" in os.environ, "WORLD_SIZE" in os.environ
    if rank != size and (rank or place.size > 1):
        here, lacks = ("RANK", "WORLD_SIZE") if rank else ("WORLD_SIZE", "RANK")
        raise PlaceError(
            f"the environment variable {here} is {os.environ[here]}, but {lacks} is not set; set both, as torchrun "
            "does, or none"
        )


def launched() -> bool:
    """Whether a launcher (torchrun, or halowire's own) started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def set_threads(setting: int, place: Place) -> int:
    """Use ``setting`` threads, or with 0 this worker's share of the cores; returns the number of threads."""
    threads = setting or max(1, len(os.sched_getaffinity(0)) // place.local_size)
    torch.set_num_threads(threads)
    return threads


def run_folder(out: str | Path | None, name: str, resume: bool, overwrite: bool) -> Path:
    """The folder of a run: ``out``, or a new one under `runs/`; a folder whose run would be lost is refused."""
    if resume and overwrite:
        raise InputError("--resume goes on with an earlier run, --overwrite deletes it; give one of them")
    if out is None:
        if resume:
            raise InputError("--resume needs --out, the folder of the run to go on with")
        if launched():
            raise InputError("give --out, the same on all workers: each would choose a run folder of its own")
        number = 1
        while (run := Path("runs", f"{name}-{number}")).exists() or lock_file(run).exists():
            number += 1
        return run
    run = named_folder(out)
    before = holds_run(run)
    if before and not resume and not overwrite and not Place.here().restarts:
        raise InputError(f"{run} already holds a run; --resume goes on with it, --overwrite deletes it")
    if resume and not before and Place.here().rank == 0:
        raise InputError(f"{run} holds no run to go on with; leave --resume out to start one there")
    return run


def named_folder(out: str | Path) -> Path:
    """``out`` as the folder that results are written to; an empty name and the name of a file are refused."""
    if not str(out).strip():
        raise InputError("--out is empty; give the name of a folder")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; give a folder")
    return folder


def refuse_crowd(workers: int) -> None:
    """Refuse more local workers than any machine of this size can run: each is a process with a memory of its own."""
    cores = os.cpu_count() or 1
    most = max(FEWEST_ALLOWED, WORKERS_PER_CORE * cores)
    if workers > most:
        raise InputError(
            f"--workers is {workers}, but this machine has {cores} cores and can run at most {most} workers; start "
            "workers on several machines with torchrun"
        )


def whole_variable(name: str, default: int) -> int:
    """The environment variable ``name`` as a whole number, or ``default`` where it is not set."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise PlaceError(
            f"the environment variable {name} is {text!r}; expected a whole number of at most {MOST_DIGITS} digits, as "
            "torchrun sets it"
        )
    return int(text)


def _refuse_number(name: str, rank: int, size_name: str, size: int) -> None:
    """Refuse a ``rank`` that is none among ``size`` workers, and no workers; both are environment variables."""
    if size < 1:
        raise PlaceError(f"the environment variable {size_name} is {size}; expected at least 1 worker")
    if rank >= size:
        raise PlaceError(
            f"the environment variable {name} is {rank}, but {size_name} is {os.environ.get(size_name, 'not set')}; "
            f"expected a number below {size_name}: workers are counted from 0"
        )
