"""Where a run is written to."""

from __future__ import annotations

from pathlib import Path

from halowire.errors import InputError
from halowire.launch.group import Place, launched


def run_folder(out: str | Path | None, name: str, resume: bool, overwrite: bool) -> Path:
    """The folder of a run: ``out``, or a new one under `runs/`; refused where it holds what must not be lost."""
    if resume and overwrite:
        raise InputError("--resume goes on with an earlier run, --overwrite deletes it; give one of them")
    if out is None:
        if resume:
            raise InputError("--resume needs --out, the folder of the run to go on with")
        if launched():
            raise InputError("give --out, the same on all workers: each would choose a run folder of its own")
        number = 1
        while Path("runs", f"{name}-{number}").exists():
            number += 1
        return Path("runs", f"{name}-{number}")
    run = Path(out)
    if run.exists() and not run.is_dir():
        raise InputError(f"--out {run} is a file; give a folder")
    before = (run / "config.json").exists()
    if before and not resume and not overwrite and not Place.here().restarts:
        raise InputError(f"{run} already holds a run; --resume goes on with it, --overwrite deletes it")
    if resume and not before and Place.here().rank == 0:
        raise InputError(f"{run} holds no run to go on with; leave --resume out to start one there")
    return run
