"""How a run ended: finished, interrupted or failed, and how it goes on from there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halowire.errors import Interrupted, TrainingError, WorkerError
from halowire.training.checkpoint import newest_checkpoint
from halowire.training.job import Job


@dataclass(frozen=True)
class Run:
    """A trained model: its folder and the numbers of its `summary.json`.

    Example:
        >>> run = halowire.train("debian", workers=2)
        >>> run.folder, run.summary["test"], run.report
    """

    folder: Path
    summary: dict[str, Any]

    @property
    def report(self) -> Path:
        """The HTML page of the run."""
        return self.folder / "report.html"


def finished(job: Job, summary: dict[str, Any]) -> Run:
    """The run of ``job``, or the interruption that ended it."""
    if summary["status"] == "stopped":
        raise Interrupted(_way_on(job))
    return Run(job.run, summary)


def worker_error(job: Job, error: BaseException) -> BaseException:
    """What to raise where local workers ended early: why, how far they came, and how to go on."""
    return TrainingError(f"{error}; {_way_on(job)}") if isinstance(error, WorkerError) else Interrupted(_way_on(job))


def _way_on(job: Job) -> str:
    """How far a run that ended early came, and how it goes on: by a command, or by the same call in a program."""
    newest = newest_checkpoint(job.run)
    if newest is None:
        return (
            f"stopped before the first checkpoint; {'overwrite=True' if job.own_model else '--overwrite'} starts again"
        )
    same = (
        f"the same call with resume=True, out={str(job.run)!r}"
        if job.own_model
        else f"the same command with --resume --out {job.run}"
    )
    epoch = int(newest.name.removeprefix("epoch-"))
    return f"stopped with a checkpoint after epoch {epoch} of {job.config.epochs}; {same} goes on"
