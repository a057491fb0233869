"""What was read from a checkpoint is put back into a model and its optimiser, after a look at whether it fits them.

Checksums find files that were damaged. This finds files that are whole but wrong: made by a faulty program, put
together from several runs, or changed on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from halowire.errors import InputError, in_one_line
from halowire.training.adam import MOMENTS, STEP, Adam
from halowire.training.checkpoint import RECORD, STATE, Progress
from halowire.training.checkpoint_choice import under
from halowire.training.generators import restore_generators

KINDS = {
    "epoch": int, "best_epoch": int, "best": dict, "stale_evaluations": int, "lowered": int, "train_loss": float,
    "sent": dict, "epoch_seconds": list, "wait_seconds": list,
}  # fmt: skip
"""What `state.json` holds of a run's progress, and of which type each is; lists and objects hold numbers."""

LARGEST = 2**63


@contextmanager
def understood(file: str) -> Iterator[None]:
    """Let content of a checkpoint's ``file`` that no run can have saved be bad input in the block, not a bug."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        why = f"{type(error).__name__}: {in_one_line(error)}"
        raise InputError(
            f"{file} of the checkpoint has its checksum, but holds what no run saves ({why}); put the files back from "
            "a copy, or train anew"
        ) from error


def parse_progress(data: bytes, epoch: int) -> Progress:
    """The progress in the bytes of `state.json`, whose checksum was right, of the checkpoint after ``epoch`` epochs."""
    with understood(RECORD):
        values = json.loads(data)["progress"]
        if values.keys() != KINDS.keys():
            raise ValueError(f"it has {', '.join(map(repr, values))}, expected {', '.join(KINDS)}")
        for name, kind in KINDS.items():
            _require_kind(name, values[name], kind)
        if values["epoch"] != epoch:
            raise ValueError(f"its epoch is {values['epoch']}, expected {epoch} as in the manifest")
        return Progress(**values)


def _require_kind(name: str, value: Any, kind: type) -> None:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else (value,)
    numbers = all(type(one) is float or (type(one) is int and -1 <= one < LARGEST) for one in inside)
    if type(value) is not kind or not numbers:
        raise ValueError(f"its {name} is {str(value)[:40]!r}, expected {kind.__name__} below 2**63")


def restore(
    progress: Progress,
    tensors: dict[str, Tensor],
    model: nn.Module,
    optimiser: Adam,
    own_part: Callable[[int, dict[str, Tensor]], tuple[int, dict[str, Tensor]] | None],
    device: torch.device,
) -> None:
    """Put the ``tensors`` of a checkpoint into ``model``, ``optimiser`` and the best weights of ``progress``.

    ``own_part`` gives, for a parameter's place in the model and the state of all of it, its place among those that
    ``optimiser`` steps, and the state of this worker's rows; None where it is not stepped here. ``device`` is where the
    parameters are.
    """
    with understood(STATE):
        weights, best = under(tensors, "model."), under(tensors, "best.")
        _load_weights(model, weights)
        if best:
            _require_like(best, weights)
        saved: dict[int, dict[str, Tensor]] = {}
        for name, value in under(tensors, "optim.").items():
            index, _, key = name.partition(".")
            saved.setdefault(int(index), {})[key] = value
        states = dict(part for index, state in saved.items() if (part := own_part(index, state)) is not None)
        for place, state in states.items():
            _require_like(state, {STEP: torch.zeros(()), **dict.fromkeys(MOMENTS, optimiser.parameters[place])})
        optimiser.load(states)
        restore_generators(tensors, device)
        progress.best_weights = best


def _load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        why = " ".join(str(error).split())
        raise InputError(f"the checkpoint holds the weights of another model ({why}); resume with the same") from None


def _require_like(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Refuse tensors of other names, types or shapes than ``expected``."""
    if found.keys() != expected.keys():
        raise ValueError(f"it has {', '.join(found)}, expected {', '.join(expected)}")
    for name, value in expected.items():
        if found[name].shape != value.shape or found[name].dtype != value.dtype:
            given = f"{found[name].dtype} {list(found[name].shape)}"
            raise ValueError(f"{name} is {given}, expected {value.dtype} {list(value.shape)}")
