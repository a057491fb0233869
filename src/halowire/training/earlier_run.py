"""An earlier run that ``--overwrite`` replaces is set aside, and deleted only when the new run has begun.

The files of the earlier run lie in a folder of their own inside the run folder meanwhile. If the new run cannot begin,
they come back; after a crash, the next run that is given the folder brings them back first.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from halowire.training.job import PREDICTIONS

WRITTEN = (
    "checkpoints", "tensorboard", "config.json", "summary.json", "report.html", "report.trace.json", PREDICTIONS,
    "events-*.jsonl", "error-*.txt",
)  # fmt: skip
"""What a run writes to its folder, beside the shards; everything else is the user's."""
ASIDE = ".earlier-run"
MOVING = ".earlier-run.moving"
"""The name of the folder while not all files are in it: what is not in it yet is still in its place."""
DELETED = ".earlier-run.deleted"


def holds_run(run: Path) -> bool:
    """Whether the folder holds a run, in its place or set aside."""
    return any((run / place / "config.json").exists() for place in ("", ASIDE, MOVING))


@contextmanager
def earlier_run_kept(run: Path) -> Iterator[None]:
    """Bring back the earlier run at the end of the block, if it was set aside in the block and is not deleted yet."""
    try:
        yield
    finally:
        bring_back(run)


def set_aside(run: Path, shards: bool) -> None:
    """Move what a run wrote to its folder out of the way; with ``shards``, the shards too."""
    found = list(_written(run, shards))
    if not found:
        return
    moving = run / MOVING
    moving.mkdir()
    for path in found:
        path.rename(moving / path.name)
    moving.rename(run / ASIDE)


def bring_back(run: Path) -> None:
    """Put what was set aside back in its place, and delete what a run that did not begin has written meanwhile."""
    aside, moving = run / ASIDE, run / MOVING
    if aside.exists():
        for path in _written(run, shards=(aside / "shards").exists()):
            _delete(path)
        with contextlib.suppress(FileNotFoundError):
            # The new run's files are gone: from here on it does not matter when this is interrupted.
            aside.rename(moving)
    if moving.exists():
        for path in list(moving.iterdir()):
            path.rename(run / path.name)
        moving.rmdir()
    shutil.rmtree(run / DELETED, ignore_errors=True)


def forget_earlier(run: Path) -> None:
    """Delete the run that was set aside: the new one has begun."""
    with contextlib.suppress(FileNotFoundError):
        (run / ASIDE).rename(run / DELETED)
    shutil.rmtree(run / DELETED, ignore_errors=True)


def _written(run: Path, shards: bool) -> Iterator[Path]:
    for pattern in (*WRITTEN, *(["shards"] if shards else [])):
        yield from sorted(run.glob(pattern))


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
