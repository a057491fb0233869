"""What a model is called with, in a form that can be filled with another graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from halowire.pyg.edges import Edges
from halowire.pyg.shard_data import ShardData


@dataclass
class Call:
    """What a model is called with: ``args`` and ``kwargs``, where a `Slot` stands for a tensor of the graph."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    data: ShardData
    samples: dict[str, tuple[str, Tensor]] = field(default_factory=dict)

    @staticmethod
    def of(args: tuple[Any, ...], kwargs: Mapping[str, Any], data: ShardData) -> Call:
        """Replace every tensor in a call by the name of a sample of its rows."""
        call = Call((), {}, data)
        edges = [value for value in (*args, *kwargs.values()) if isinstance(value, Edges)]
        num_edges = edges[0].shape[-1] if edges else data.edge_index.shape[1]
        call.args = tuple(call._slot(value, num_edges) for value in args)
        call.kwargs = {name: call._slot(value, num_edges) for name, value in kwargs.items()}
        return call

    def key(self) -> str:
        """The same for calls that differ in the values of their tensors and numbers only."""
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
        """The call on another graph, an object whose attributes are the samples."""
        return tuple(_fill(value, graph) for value in self.args), {k: _fill(v, graph) for k, v in self.kwargs.items()}

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
    """The place of a graph's tensor in a call; without a name, of the graph itself."""

    name: str


def _fill(value: Any, graph: Any) -> Any:
    if not isinstance(value, Slot):
        return value
    return getattr(graph, value.name) if value.name else graph


def _form(value: Any) -> Any:
    """What decides which code runs: flags and texts by value, a number (a time, an epoch) by its type alone."""
    if isinstance(value, Slot | bool | str) or value is None:
        return value
    if isinstance(value, Tensor):
        return "tensor", value.dtype, tuple(value.shape)
    if isinstance(value, dict):
        return type(value).__qualname__, {name: _form(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value).__qualname__, [_form(item) for item in value]
    return type(value).__qualname__
