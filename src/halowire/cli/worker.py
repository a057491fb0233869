"""The entry point of a worker process: `python -m halowire.cli.worker train|predict|roundtrip ...`."""

from __future__ import annotations

import sys
from pathlib import Path

from halowire.cli.main import guarded
from halowire.launch import INTERRUPTED
from halowire.train.job import Job
from halowire.worker import predict_worker, roundtrip_worker, train_worker


def run(arguments: list[str]) -> int:
    """Do one worker's share of the verb."""
    verb, *rest = arguments
    if verb == "train":
        return INTERRUPTED if train_worker(Job.read(Path(rest[0])))["status"] == "stopped" else 0
    if verb == "predict":
        predict_worker(Job.read(Path(rest[0])), Path(rest[1]))
    else:
        roundtrip_worker()
    return 0


if __name__ == "__main__":
    sys.exit(guarded(run, sys.argv[1:]))
