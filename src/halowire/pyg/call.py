"""What a model is called with: what its forward needs, and a call that can be repeated on another graph."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from halowire.pyg.edges import Edges
from halowire.pyg.shard_data import ShardData


def needed_inputs(model: nn.Module) -> list[str]:
    """The names of the parameters that ``model.forward`` must be given."""
    parameters = inspect.signature(model.forward).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]


@dataclass
class Call:
    """What a model is called with: ``args`` and ``kwargs``, where a `Slot` stands for a tensor of the graph ``data``.

    ``samples`` are those tensors by name, each with its kind, ``node`` or ``edge``.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    data: ShardData
    samples: dict[str, tuple[str, Tensor]] = field(default_factory=dict)

    @staticmethod
    def of(args: tuple[Any, ...], kwargs: Mapping[str, Any], data: ShardData) -> Call:
        """The call with a `Slot` in place of every tensor that has one row for each node or edge."""
        call = Call((), {}, data)
        edges = [value for value in (*args, *kwargs.values()) if isinstance(value, Edges)]
        num_edges = edges[0].shape[-1] if edges else data.edge_index.shape[1]
        call.args = tuple(call._slot(value, num_edges) for value in args)
        call.kwargs = {name: call._slot(value, num_edges) for name, value in kwargs.items()}
        return call

    def key(self) -> str:
        """A text that is equal for calls that differ only in the values of their tensors and numbers."""
        shapes = {
            name: (kind, value.dtype, tuple(value.shape[1:]), value.shape[0] == 0, value.requires_grad)
            for name, (kind, value) in self.samples.items()
        }
        return repr((_form(self.args), _form(self.kwargs), shapes))

    @property
    def with_gradient(self) -> dict[str, str]:
        """Names and kinds of the graph's tensors whose gradient is asked for."""
        return {name: kind for name, (kind, value) in self.samples.items() if value.requires_grad}

    def on(self, graph: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """``args`` and ``kwargs`` on another graph, an object with the samples as attributes."""
        args = tuple(_fill(value, graph) for value in self.args)
        return args, {name: _fill(value, graph) for name, value in self.kwargs.items()}

    def _slot(self, value: Any, num_edges: int) -> Any:
        if isinstance(value, ShardData):
            for name in value.keys:
                self._sample(name, getattr(value, name), value.edge_index.shape[1])
            return Slot("")
        if not isinstance(value, Tensor):
            return value
        name = "edge_index" if isinstance(value, Edges) else f"sample{len(self.samples)}"
        return Slot(name) if self._sample(name, value, num_edges) else value

    def _sample(self, name: str, value: Any, num_edges: int) -> bool:
        """Add ``value`` to the samples; False where it is no tensor of the graph."""
        if isinstance(value, Edges):
            return len(value.sources) == 2
        if not isinstance(value, Tensor) or value.dim() == 0:
            return False
        known = [key for key in self.data.keys if getattr(self.data, key) is value]
        like_edge = any(key.startswith("edge_") for key in known) or (
            value.shape[0] == num_edges != self.data.num_nodes and not known
        )
        extent = num_edges if like_edge else self.data.num_nodes
        if value.shape[0] != extent:
            return False
        self.samples[name] = ("edge" if like_edge else "node", value)
        return True


@dataclass(frozen=True)
class Slot:
    """Stands in a call for the graph's tensor of this name; without a name, for the graph itself."""

    name: str


def _fill(value: Any, graph: Any) -> Any:
    if not isinstance(value, Slot):
        return value
    return getattr(graph, value.name) if value.name else graph


def _form(value: Any) -> Any:
    """What may decide which code runs: a flag or a text by its value, a number (a time, an epoch) by its type alone."""
    if isinstance(value, Slot | bool | str) or value is None:
        return value
    if isinstance(value, Tensor):
        return "tensor", value.dtype, tuple(value.shape)
    if isinstance(value, dict):
        return type(value).__qualname__, {name: _form(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value).__qualname__, [_form(item) for item in value]
    return type(value).__qualname__
