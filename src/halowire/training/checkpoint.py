"""A checkpoint holds the whole state of a run in safetensors and JSON, written under a temporary name and renamed."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file, save_file
from torch import Tensor, nn

from halowire.errors import InputError

KEPT = 2
"""How many checkpoints a run folder keeps."""
Tensors = dict[str, Tensor]


@dataclass
class Progress:
    """How far a run is: the next epoch, the best validation result, the totals over all workers so far.

    ``lowered`` counts how often the learning rate was halved because a value was not finite.
    """

    epoch: int = 0
    best_epoch: int = -1
    best: dict[str, float] = field(default_factory=dict)
    best_weights: Tensors = field(default_factory=dict)
    stale_evaluations: int = 0
    lowered: int = 0
    train_loss: float = float("nan")
    sent: dict[str, int] = field(default_factory=dict)
    epoch_seconds: list[float] = field(default_factory=list)
    wait_seconds: list[float] = field(default_factory=list)


def save_checkpoint(
    run: Path, progress: Progress, model: Tensors, optimiser: dict[int, Tensors], settings: dict[str, Any]
) -> None:
    """Write ``checkpoints/epoch-<n>/`` with ``state.safetensors`` and ``state.json``; keep the newest few.

    ``model`` and ``optimiser`` cover all stages; ``optimiser`` is keyed by the places of the parameters in the model.
    """
    folder = run / "checkpoints"
    final = folder / f"epoch-{progress.epoch:06d}"
    temporary = folder / f".{final.name}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    tensors = {f"model.{name}": value for name, value in model.items()}
    tensors |= {f"best.{name}": value for name, value in progress.best_weights.items()}
    for index, state in optimiser.items():
        tensors |= {f"optim.{index}.{name}": value for name, value in state.items()}
    tensors["random"] = torch.get_rng_state()
    save_file(_apart(tensors), temporary / "state.safetensors")
    plain = {key: value for key, value in asdict(progress).items() if key != "best_weights"}
    (temporary / "state.json").write_text(json.dumps({"settings": settings, "progress": plain}, indent=1))
    shutil.rmtree(final, ignore_errors=True)
    temporary.rename(final)
    for old in sorted(folder.glob("epoch-*"))[:-KEPT]:
        shutil.rmtree(old)


def _apart(tensors: Tensors) -> Tensors:
    """``tensors`` on the CPU, no two of them in the same memory: a weight that a model uses twice has two names."""
    found, seen = {}, set[int]()
    for name, value in tensors.items():
        plain = value.detach().cpu().contiguous()
        memory = plain.untyped_storage().data_ptr()
        found[name] = plain.clone() if memory in seen else plain
        seen.add(memory)
    return found


def save_wire(run: Path, epoch: int, rank: int, state: Tensors) -> None:
    """Write what one worker's wire remembers: delta references, running means, messages that a later epoch uses."""
    folder = run / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".wire-{rank}.tmp"
    save_file({name: value.cpu().contiguous() for name, value in state.items()}, temporary)
    temporary.rename(_wire_file(run, epoch, rank))
    for old in sorted(folder.glob(f"wire-*-{rank}.safetensors"))[:-KEPT]:
        old.unlink()


def load_wire(run: Path, epoch: int, rank: int) -> Tensors:
    """Read what :func:`save_wire` wrote for the worker ``rank`` after ``epoch``."""
    path = _wire_file(run, epoch, rank)
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"the wire's state {path} of worker {rank} cannot be read ({error}); train anew") from error


def _wire_file(run: Path, epoch: int, rank: int) -> Path:
    return run / "checkpoints" / f"wire-{epoch:06d}-{rank}.safetensors"


def newest_checkpoint(run: Path) -> Path | None:
    """The checkpoint of the latest epoch, or None."""
    found = sorted((run / "checkpoints").glob("epoch-*"))
    return found[-1] if found else None


def drop_checkpoint(run: Path, epoch: int) -> None:
    """Remove the checkpoint after ``epoch`` epochs if there is one before it.

    A checkpoint whose very next epoch is not finite leads nowhere, whatever the learning rate: the step before it was
    too large already.
    """
    found = sorted((run / "checkpoints").glob("epoch-*"))
    if len(found) > 1 and found[-1].name == f"epoch-{epoch:06d}":
        shutil.rmtree(found[-1])


def read_newest(run: Path) -> tuple[bytes, bytes]:
    """The bytes of ``state.json`` and ``state.safetensors`` of the newest checkpoint; empty if no checkpoint exists."""
    folder = newest_checkpoint(run)
    if folder is None:
        return b"", b""
    try:
        return (folder / "state.json").read_bytes(), (folder / "state.safetensors").read_bytes()
    except OSError as error:
        raise InputError(f"checkpoint {folder} cannot be read ({error}); delete it to use the one before") from error


def parse_checkpoint(record: bytes, tensors: bytes) -> tuple[dict[str, Any], Tensors]:
    """Read the JSON and the tensors of a checkpoint from their bytes."""
    try:
        values = json.loads(record)
        if not {"settings", "progress"} <= set(values):
            raise ValueError("state.json lacks its settings or its progress")
        return values, load(tensors)
    except (ValueError, TypeError, SafetensorError) as error:
        raise InputError(f"the checkpoint is damaged ({error}); delete its folder to use the one before") from error


def restore(
    record: dict[str, Any], tensors: Tensors, model: nn.Module, optimiser: torch.optim.Optimizer, places: list[int]
) -> Progress:
    """Put a checkpoint into ``model`` and ``optimiser``; return how far the run was.

    ``places`` are the places in the model of the parameters that ``optimiser`` steps.
    """
    try:
        model.load_state_dict(_under(tensors, "model."))
    except RuntimeError as error:
        why = " ".join(str(error).split())
        raise InputError(f"the checkpoint holds the weights of another model ({why}); resume with the same") from None
    states: dict[int, Tensors] = {}
    for name, value in _under(tensors, "optim.").items():
        index, _, key = name.partition(".")
        if int(index) in places:
            states.setdefault(places.index(int(index)), {})[key] = value
    optimiser.load_state_dict({"state": states, "param_groups": optimiser.state_dict()["param_groups"]})
    torch.set_rng_state(tensors["random"])
    return Progress(**record["progress"], best_weights=_under(tensors, "best."))


def kept_split(run: Path) -> list[int]:
    """How many blocks every stage has in the newest checkpoint; empty if no checkpoint exists."""
    record, tensors = read_newest(run)
    return list(parse_checkpoint(record, tensors)[0]["settings"].get("split", ())) if record else []


def best_weights(run: Path) -> Tensors:
    """The weights with the best validation result of a run; without an evaluation, the newest weights."""
    record, tensors = read_newest(run)
    if not record:
        raise InputError(f"run {run} has no checkpoint; train it first with `halowire train ... --out {run}`")
    _, found = parse_checkpoint(record, tensors)
    return _under(found, "best.") or _under(found, "model.")


def _under(tensors: Tensors, prefix: str) -> Tensors:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
