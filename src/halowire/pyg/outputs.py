"""The rows in a model's output: a tensor, or tuples, lists and dictionaries of them; anything else is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch import Tensor

from halowire.errors import InputError


def tensors_in(out: Any) -> list[Tensor]:
    """All tensors of an output, at least one."""
    found = _tensors(out)
    if not found:
        raise InputError("the model's forward gives no tensor; a distributed model gives one row per node")
    return found


def change_tensors(out: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """``out`` with every tensor replaced by ``change`` of it, in containers of the same types."""
    if isinstance(out, Tensor):
        return change(out)
    if isinstance(out, dict):
        filled = copy.copy(out)
        for key, value in out.items():
            filled[key] = change_tensors(value, change)
        return filled
    if isinstance(out, tuple | list):
        values = [change_tensors(value, change) for value in out]
        return type(out)(*values) if hasattr(out, "_fields") else type(out)(values)
    return out


def _tensors(out: Any) -> list[Tensor]:
    if isinstance(out, Tensor):
        return [out]
    if isinstance(out, dict):
        return [tensor for value in out.values() for tensor in _tensors(value)]
    if isinstance(out, tuple | list):
        return [tensor for value in out for tensor in _tensors(value)]
    if out is None:
        return []
    raise InputError(
        f"the model's forward gives {type(out).__name__}, which cannot be compared; give a tensor, or tuples, lists "
        "and dictionaries of tensors and None"
    )
