"""The summary of a run: the numbers of `summary.json`, reduced over all workers."""

from __future__ import annotations

import re
import resource
import statistics
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from halowire.events import EVAL, GRADIENT, SETUP, STAGE, TRAIN
from halowire.kernels import kernels_in_use
from halowire.training.checkpoint import Progress
from halowire.training.config import Config
from halowire.training.metrics import SPLITS
from halowire.training.situation import mesh_of
from halowire.wire import Transport

ACCOUNT_ORDER = (SETUP, TRAIN, STAGE, EVAL, GRADIENT)


def peak_memory() -> int:
    """The largest resident set of this process so far, in bytes.

    Linux keeps it per program in ``VmHWM``; what ``getrusage`` says outlives ``exec``, so that a worker would report
    the peak of the launcher, which held the whole graph.
    """
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE)
        if found:
            return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def total_sent(transport: Transport) -> dict[str, int]:
    """Bytes sent by all workers since this process started, per account."""
    mine = torch.tensor([transport.ledger.totals[account] for account in ACCOUNT_ORDER], dtype=torch.int64)
    return dict(zip(ACCOUNT_ORDER, transport.all_reduce(mine, "reduction of the totals", SETUP).tolist(), strict=True))


def largest_memory(transport: Transport) -> int:
    """The peak memory of the largest worker, in bytes."""
    each = torch.zeros(transport.size, dtype=torch.int64)
    each[transport.rank] = peak_memory()
    return int(transport.all_reduce(each, "reduction of the memory", SETUP).max())


def summarise(
    config: Config, graph: str, workers: int, metric: str, progress: Progress, memory: int, status: str
) -> dict[str, Any]:
    """The contract of `summary.json`."""
    epochs = max(1, progress.epoch)
    sent = {account: progress.sent.get(account, 0) for account in ACCOUNT_ORDER}
    return {
        "graph": graph,
        "recipe": config.recipe,
        "model": config.model.name,
        "workers": workers,
        "mesh": asdict(mesh_of(config, workers)),
        "epochs": progress.epoch,
        "seed": config.seed,
        "metric": metric,
        "train_loss": progress.train_loss,
        "val": progress.best.get("val"),
        "test": progress.best.get("test"),
        "epoch_seconds": _median(progress.epoch_seconds),
        "wait_seconds": _median(progress.wait_seconds),
        "wire_bytes_per_epoch": (sent[TRAIN] + sent[STAGE]) / epochs,
        "halo_bytes_per_epoch": sent[TRAIN] / epochs,
        "stage_bytes_per_epoch": sent[STAGE] / epochs,
        "wire_bytes_total": sum(sent.values()),
        "setup_wire_bytes": sent[SETUP],
        "eval_wire_bytes": sent[EVAL],
        "gradient_bytes_per_epoch": sent[GRADIENT] / epochs,
        "peak_memory_bytes": memory,
        "kernels": kernels_in_use(),
        "best_epoch": progress.best_epoch,
        "other_metrics": {name: value for name, value in progress.best.items() if name not in SPLITS},
        "status": status,
    }


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None
