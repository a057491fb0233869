"""The entry point of halowire's own workers: `train RUN`, `fit RUN FOLDER`, `predict RUN FILE`, `roundtrip`."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import halowire
from halowire.cli.explain import explain
from halowire.cli.leave import leave
from halowire.exchange import LateError
from halowire.fit_worker import fit_worker
from halowire.launch import INTERRUPTED, Place, WorkerError, tell_launcher
from halowire.train.job import Job
from halowire.worker import predict_worker, roundtrip_worker, train_worker


def main() -> None:
    """Do one worker's share; the launcher prints what goes wrong, once for all workers."""
    try:
        code = run(sys.argv[1:])
    except Exception as error:
        found = explain(error)
        if found is None:
            tell_launcher(str(_own_error(error)))
        if found is None or not tell_launcher(found[1], found[0], isinstance(error, LateError)):
            raise
        code = found[0]
    except KeyboardInterrupt:
        code = INTERRUPTED
    leave(code)


def _own_error(error: Exception) -> WorkerError:
    """An error of the user's code, or a bug: its words and its place for whoever started the workers."""
    frames = traceback.extract_tb(error.__traceback__)
    libraries = ("site-packages", "<string>", "<frozen", str(Path(halowire.__file__).parent))
    own = [frame for frame in frames if not any(name in frame.filename for name in libraries)]
    place = own[-1] if own else frames[-1]
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return WorkerError(
        f"worker {Place.here().rank} failed with {words} ({place.filename}, line {place.lineno}, in {place.name}); "
        "its traceback is printed above"
    )


def run(arguments: list[str]) -> int:
    """Do one worker's share of the verb; the exit code."""
    verb, *rest = arguments
    if verb == "train":
        return INTERRUPTED if train_worker(Job.read(Path(rest[0])))["status"] == "stopped" else 0
    if verb == "fit":
        return INTERRUPTED if fit_worker(Job.read(Path(rest[0])), Path(rest[1]))["status"] == "stopped" else 0
    if verb == "predict":
        predict_worker(Job.read(Path(rest[0])), Path(rest[1]))
    else:
        roundtrip_worker()
    return 0
