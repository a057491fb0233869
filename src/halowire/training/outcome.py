"""The outcome of a run: the numbers of `summary.json`, how the run ended, and how to go on with it."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from halowire.errors import Interrupted, NotFiniteError, TrainingError, WorkerError
from halowire.events import ACCOUNTS, EVAL, GRADIENT, LOCAL, NETWORK, SETUP, STAGE, TRAIN
from halowire.kernels import kernels_in_use, why_twins
from halowire.training.checkpoint import Progress, newest_checkpoint
from halowire.training.config import Config
from halowire.training.job import Job
from halowire.training.rule import mesh_of
from halowire.training.task import SPLITS
from halowire.wire import Transport


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
    """The finished run of ``job``; raises the interruption that ended it, if there was one."""
    if summary["status"] == "stopped":
        raise Interrupted(_way_on(job))
    return Run(job.run, summary)


def worker_error(job: Job, error: BaseException) -> BaseException:
    """The error to raise when local workers ended early: it says why, how far they came, and how to go on."""
    failed = isinstance(error, WorkerError | NotFiniteError)
    return TrainingError(f"{error}; {_way_on(job)}") if failed else Interrupted(_way_on(job))


def _way_on(job: Job) -> str:
    """Words on how far a run that ended early came, and by which command or call it goes on."""
    newest = newest_checkpoint(job.run)
    if newest is None:
        again = "overwrite=True" if job.own_model else "--overwrite"
        return f"stopped before the first checkpoint; {again} starts again"
    way = f"call with resume=True, out={str(job.run)!r}" if job.own_model else f"command with --resume --out {job.run}"
    same = f"the same {way}"
    epoch = int(newest.name.removeprefix("epoch-"))
    return f"stopped with a checkpoint after epoch {epoch} of {job.config.epochs}; {same} goes on"


def total_sent(transport: Transport) -> dict[str, int]:
    """Bytes that all workers have sent since their processes started, per account."""
    mine = torch.tensor([transport.ledger.totals[account] for account in ACCOUNTS], dtype=torch.int64)
    return dict(zip(ACCOUNTS, transport.all_reduce(mine, "reduction of the totals", SETUP).tolist(), strict=True))


def summarise(
    config: Config, graph: str, workers: int, metric: str, progress: Progress, memory: int, status: str,
    device: torch.device,
) -> dict[str, Any]:  # fmt: skip
    """The numbers of `summary.json`; `val` and `test` are from the epoch with the best validation result.

    ``memory`` is the peak of the largest worker, on its ``device``.
    """
    epochs = max(1, progress.epoch)
    sent = {account: progress.sent.get(account, 0) for account in ACCOUNTS}
    return {
        "graph": graph, "recipe": config.recipe, "model": config.model.name,
        "workers": workers, "mesh": asdict(mesh_of(config, workers)),
        "epochs": progress.epoch, "seed": config.seed,
        "metric": metric, "train_loss": progress.train_loss,
        "val": progress.best.get("val"), "test": progress.best.get("test"),
        "epoch_seconds": _median(progress.epoch_seconds), "wait_seconds": _median(progress.wait_seconds),
        "wire_bytes_per_epoch": (sent[TRAIN] + sent[STAGE]) / epochs,
        "halo_bytes_per_epoch": sent[TRAIN] / epochs, "stage_bytes_per_epoch": sent[STAGE] / epochs,
        "wire_bytes_total": sum(sent[account] for account in NETWORK),
        "setup_wire_bytes": sent[SETUP], "eval_wire_bytes": sent[EVAL],
        "gradient_bytes_per_epoch": sent[GRADIENT] / epochs, "local_bytes_per_epoch": sent[LOCAL] / epochs,
        "peak_memory_bytes": memory, "device": device.type, "kernels": kernels_in_use(device),
        "why_twins": why_twins(device), "best_epoch": progress.best_epoch,
        "other_metrics": {name: value for name, value in progress.best.items() if name not in SPLITS},
        "status": status, "lowered": progress.lowered,
    }  # fmt: skip


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None
