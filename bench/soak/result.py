"""The result of a run, to compare it bit for bit: the losses of all epochs, and every tensor of the last checkpoint."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load_file

from bench.soak.outcome import BadEndError

Result = dict[str, str]
"""What was found, by name: losses as JSON has them, tensors as digests of their bytes."""
FACTS = ("train_loss", "val", "test", "epochs")
RANDOM = "random"
"""The state of the generator, which says how often a program asked and not what came out."""


def events(run: Path, rank: int = 0) -> list[dict[str, Any]]:
    """The events of a worker so far; a line that is only half written is left out."""
    try:
        lines = (run / f"events-{rank}.jsonl").read_text(errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return [event for event in found if isinstance(event, dict)]


def epochs_done(run: Path) -> int:
    """Epochs that the run has finished, by the last event of worker 0."""
    return max((event["epoch"] + 1 for event in events(run) if event["event"] == "epoch"), default=0)


def last_start(run: Path) -> float:
    """When the workers of the run last began to train, in seconds since 1970."""
    return max((event["time"] for event in events(run) if event["event"] == "start"), default=0.0)


def checkpoints(run: Path) -> list[Path]:
    """The published checkpoints, the oldest first."""
    return sorted((run / "checkpoints").glob("epoch-*"))


def saved_epoch(run: Path) -> int:
    """The epoch of the newest checkpoint."""
    found = checkpoints(run)
    return int(found[-1].name.removeprefix("epoch-")) if found else 0


def result_of(run: Path, *others: Path) -> Result:
    """Losses and final weights of a finished run; ``others`` are the folders of its other hosts."""
    found: Result = {}
    for event in events(run):
        if event["event"] == "epoch":
            name = f"loss of epoch {event['epoch']}"
            if name in found:
                raise BadEndError("wrong result", f"{run} has two events for the {name}")
            found[name] = json.dumps(event["loss"])
    summary = json.loads((run / "summary.json").read_text())
    found |= {f"{name} of the summary": json.dumps(summary[name]) for name in FACTS}
    if not checkpoints(run):
        raise BadEndError("lost checkpoint", f"{run} has finished without a checkpoint")
    for folder in (*others, run):  # what several hosts have counts as worker 0 has it
        found |= _tensors(folder, checkpoints(run)[-1].name)
    if (predictions := run / "predictions.npy").exists():
        found["predictions"] = hashlib.sha256(predictions.read_bytes()).hexdigest()[:16]
    return found


def _tensors(run: Path, newest: str) -> Result:
    """Digests of all tensors of the checkpoint ``newest`` in the folder ``run``."""
    folder = run / "checkpoints"
    files = sorted((folder / newest).rglob("*.safetensors")) + sorted(folder.glob(f"wire-{newest[6:]}-*"))
    found = {}
    try:
        for file in files:
            for name, value in load_file(file).items():
                if name != RANDOM:
                    key = f"tensor {name} of {file.relative_to(run)}"
                    found[key] = hashlib.sha256(value.tobytes() + str(value.dtype).encode()).hexdigest()[:16]
    except (OSError, SafetensorError) as error:
        raise BadEndError("lost checkpoint", f"{folder / newest} cannot be read: {error}") from None
    return found


def compare(found: Result, whole: Result, gaps: bool = False) -> None:
    """Raise unless the two results are the same; with ``gaps``, losses may be missing (the disk was full)."""
    for name in sorted(whole.keys() | found.keys()):
        if gaps and name.startswith("loss of epoch") and name not in found:
            continue
        if found.get(name) != whole.get(name):
            raise BadEndError("wrong result", f"{name} is {found.get(name)}, without the fault {whole.get(name)}")
