"""Disks: full, read-only, and folders that are deleted under a run."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.netlab.namespace import CommandError, system
from bench.soak.ground import Case, Ground, for_all
from bench.soak.outcome import REFUSED, BadEndError, Fault
from bench.soak.program import Program
from bench.soak.result import saved_epoch
from bench.soak.subject import SUBJECTS

FULL = "full disk"
READ_ONLY = "run folder becomes read-only"
DELETED = "run folder deleted"
NO_CHECKPOINTS = "folder of checkpoints deleted"
PLAIN_ROOT = ("--inh-caps=-dac_override,-dac_read_search", "--bounding-set=-dac_override,-dac_read_search")
"""Options of setpriv that make permissions count for root as for everybody."""


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of its own of ``size`` in ``folder``."""
    folder.mkdir()
    system(f"mount -t tmpfs -o size={size} soak {folder}")
    try:
        yield folder
    finally:
        for _ in range(50):
            try:
                system(f"umount {folder}")
                break
            except CommandError:  # a process that was just killed still has a file open
                time.sleep(0.1)


def end_or_go_on(ground: Ground, fault: Fault, program: Program, codes: list[int], *patterns: str) -> bool:
    """Wait for the end: either it refuses clearly (True), or it did not mind the fault and has finished (False)."""
    end = program.wait()
    fault.detect = time.time() - fault.at
    if end.code == 0:
        return False
    ground.expect_line(end, codes, *patterns)
    fault.outcome = REFUSED
    return True


def full(ground: Ground) -> None:
    """Something else fills the disk; the run says which folder and how much, and goes on when there is room."""
    with small_disk(ground.folder / "disk", "24m") as disk:
        ground.run = disk / "run"
        program = ground.start()
        done = ground.reach(program, ground.targets(1, last=0.6)[0])
        fault = ground.fault(FULL)
        filler = disk / "filler"
        _fill(filler)
        refused = end_or_go_on(ground, fault, program, [1], "disk is full|no space", r"free|needed", "run")
        filler.unlink()
        if refused:
            program = ground.recover(fault, done)
        ground.finish(program, gaps=not refused)
        _no_halves(ground)
        shutil.copytree(ground.run, ground.folder / "run")
    ground.run = ground.folder / "run"


def _fill(filler: Path) -> None:
    """Write until nothing is left."""
    handle = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while os.write(handle, b"0" * size) == size:
                    pass
            except OSError:
                continue
    finally:
        os.close(handle)


def _no_halves(ground: Ground) -> None:
    half = [path.name for path in ground.run.rglob("*") if ".tmp" in path.name]
    if half:
        raise BadEndError("left over", f"{half} in the run folder")


def read_only(ground: Ground) -> None:
    """The permissions of the run folder are taken away; with them back, the run goes on."""
    before = ["setpriv", *PLAIN_ROOT]
    program = ground.start(before=before)
    done = ground.reach(program, ground.targets(1, last=0.6)[0])
    fault = ground.fault(READ_ONLY)
    folders = [ground.run, *(path for path in ground.run.rglob("*") if path.is_dir())]
    for folder in folders:
        if folder.exists():
            folder.chmod(0o555)
    try:
        refused = end_or_go_on(ground, fault, program, [1], "permission denied|may write", "run")
    finally:
        for folder in [ground.run, *(path for path in ground.run.rglob("*") if path.is_dir())]:
            folder.chmod(0o755)
    if refused:
        program = ground.recover(fault, done)
    ground.finish(program)


def deleted(ground: Ground, name: str) -> None:
    """A folder is deleted under the run: it ends and says so, or it makes the folder again and goes on."""
    program = ground.start()
    done = ground.reach(program, ground.targets(1, last=0.6)[0])
    fault = ground.fault(NO_CHECKPOINTS if name else DELETED)
    victim = ground.run / name if name else ground.run
    victim.rename(ground.folder / "deleted")  # at once, as `rm -r` of a small folder is
    shutil.rmtree(ground.folder / "deleted")
    refused = end_or_go_on(ground, fault, program, [1, 2], "deleted|gone|run")
    if refused:
        saved = saved_epoch(ground.run)
        program, fault.recover = ground.resume()
        fault.lost = done - saved
    ground.finish(program)


def cases() -> list[Case]:
    """Recipes with and without a state of the wire, and the pipeline; the rest for some of them."""
    some = [SUBJECTS[name] for name in ("exact", "sylvie-a", "gnnpipe")]
    return [
        *for_all("disk-full", [*some, SUBJECTS["halowire"]], full),
        *for_all("read-only", some, read_only),
        *for_all("deleted-run", some[:2], partial(deleted, name="")),
        *for_all("deleted-checkpoints", some[:2], partial(deleted, name="checkpoints")),
    ]
