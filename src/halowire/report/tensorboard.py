"""A run's curves for TensorBoard, written from its events when it is over."""

from __future__ import annotations

import math
from pathlib import Path

from halowire.errors import InputError
from halowire.report import series
from halowire.report.run_files import read_run
from halowire.report.units import number


def write_tensorboard(run: Path) -> Path:
    """Write ``run``/tensorboard: loss, learning rate, metrics, seconds, waiting, phases and bytes per epoch.

    It is refused where tensorboard is not installed or the folder holds no run. Earlier files are replaced.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InputError(
            "tensorboard is not installed: pip install 'halowire[report]', or leave --tensorboard out"
        ) from error
    found = read_run(Path(run))
    folder = Path(run) / "tensorboard"
    for old in folder.glob("events.out.tfevents.*"):
        old.unlink()
    curves = {
        "loss/train": series.losses(found),
        "optim/lr": series.learning_rates(found),
        **{f"metric/{split}": series.metrics(found, split) for split in ("train", "val", "test")},
        "time/epoch_seconds": series.seconds(found),
        "time/wait_seconds": series.waits(found),
        "wire/bytes": series.wire_bytes(found),
        "wire/gradient_bytes": series.gradient_bytes(found),
    }
    begun = number(found.first.start.get("time"))
    with SummaryWriter(log_dir=str(folder)) as writer:
        for name, points in curves.items():
            for epoch, value in points:
                if math.isfinite(value):
                    writer.add_scalar(name, value, epoch, walltime=begun if math.isfinite(begun) else None)
    return folder
