"""A slot stands in a call of the model for a tensor of the graph, so that the call can be repeated on another graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from halowire.pyg.leaves import changed
from halowire.pyg.own_rows import plain


@dataclass(frozen=True)
class Slot:
    """Stands in a call for the graph's tensor of this name; without a name, for the graph itself.

    In a graph of several types, ``kind`` is the type of the nodes or edges that the tensor belongs to.
    """

    name: str
    kind: str | tuple[str, str, str] | None = None


def fill(value: Any, graph: Any) -> Any:
    """The tensor of ``graph`` that a slot stands for, also inside tuples, lists and dictionaries; else ``value``."""
    return changed(value, lambda leaf: _filled(leaf, graph))


def _filled(value: Any, graph: Any) -> Any:
    if not isinstance(value, Slot):
        return value
    if not value.name:
        return graph
    return plain(getattr(graph, value.name) if value.kind is None else graph[value.kind][value.name])


def form(value: Any) -> Any:
    """What of a value may decide which code runs: the value of a flag or a text, but only the type of a number."""
    if isinstance(value, Slot | bool | str) or value is None:
        return value
    if isinstance(value, Tensor):
        return "tensor", value.dtype, tuple(value.shape)
    if isinstance(value, dict):
        return type(value).__qualname__, {name: form(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value).__qualname__, [form(item) for item in value]
    return type(value).__qualname__
