"""Pairs of nodes of the whole graph, as ``RandomLinkSplit`` makes them: reading rows by them fetches those of others.

Each pair belongs to the owner of its first node. ``z[edge_label_index[0]]`` gives one row for each of this worker's
pairs, wherever the node lives, and in backward its gradient returns to the owner.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.partitioning import Shard
from halowire.pyg.edges import ASKING, KEEPING
from halowire.pyg.leaves import changed
from halowire.pyg.own_rows import plain
from halowire.training import PairRows
from halowire.wire import Transport

NAMES = ("edge_label_index", "edge_index")
"""How the names of pairs of nodes end; ``edge_index`` itself are the edges that messages pass along."""


def are_pairs(name: str, value: Any) -> bool:
    """Whether the attribute ``name`` holds pairs of nodes that are scored, ``[2, P]``."""
    whole = isinstance(value, Tensor) and value.dim() == 2 and value.shape[0] == 2 and value.dtype == torch.int64
    return whole and name != "edge_index" and name.endswith(NAMES)


def pair_names(tensors: Any) -> dict[str, str]:
    """The names of all pairs of nodes, and of the tensors with one row per pair; each with the name of its pairs."""
    found: dict[str, str] = {}
    for name, value in tensors.items():
        if are_pairs(name, value):
            label = name.removesuffix("_index")
            rows = tensors.get(label)
            found[name] = name
            if isinstance(rows, Tensor) and rows.dim() and rows.shape[0] == value.shape[1]:
                found[label] = name
    return found


@dataclass(frozen=True, eq=False)
class NodePlaces:
    """For every node of the graph its ``owner`` and its row there, ``place``, int32 ``[N]``; how rows are fetched."""

    owner: Tensor
    place: Tensor
    shard: Shard
    transport: Transport
    device: torch.device

    @staticmethod
    def of(shard: Shard, transport: Transport, device: torch.device) -> NodePlaces:
        """Ask all workers, together, where their nodes are."""
        table = torch.zeros(2, shard.num_nodes, dtype=torch.int32)
        table[0, shard.rows] = shard.rank
        table[1, shard.rows] = torch.arange(shard.num_owned, dtype=torch.int32)
        owner, place = transport.all_reduce(table, "places of all nodes", SETUP)
        return NodePlaces(owner, place, shard, transport, device)

    def __deepcopy__(self, memo: dict[int, object]) -> NodePlaces:
        """Return the same places."""
        return self


@dataclass(eq=False)
class Plan:
    """The rows that the pairs ``nodes`` need, and the table of the last rows that were read by them."""

    nodes: Tensor
    places: NodePlaces
    _rows: PairRows | None = None
    _last: tuple[Any, int, Tensor] | None = field(default=None, repr=False)

    def table(self, rows: Tensor) -> Tensor:
        """The owned ``rows`` ``[n, k]``, then the fetched ones; both ends of the pairs are read from one table."""
        where = self.places
        if self._rows is None:
            where.transport.settle()
            self._rows = PairRows(self.nodes, where, where.shard, where.transport, where.device)
        if self._last is not None and self._last[0]() is rows and self._last[1] == rows._version:
            return self._last[2]
        table = self._rows.table(plain(rows))
        self._last = (weakref.ref(rows, self._forget), rows._version, table)
        return table

    def read(self, rows: Tensor, nodes: Tensor) -> Tensor:
        """The rows of ``nodes``, which are among those of the plan."""
        if rows.shape[0] != where_owned(self.places):
            raise InputError(
                f"a tensor of shape {list(rows.shape)} is read by pairs of nodes; it must have one row for each of the "
                f"{where_owned(self.places)} nodes of this worker, as the output of the model does"
            )
        if rows.dtype != torch.float32:
            raise InputError(f"rows are read by pairs of nodes in float32, not {rows.dtype}; call .float() before")
        flat = rows if rows.dim() == 2 else rows.reshape(rows.shape[0], -1)
        table = self.table(flat)
        assert self._rows is not None
        return table[self._rows.places(nodes.cpu())].view(*nodes.shape, *rows.shape[1:])

    def _forget(self, _: object) -> None:
        self._last = None


def where_owned(places: NodePlaces) -> int:
    """The number of this worker's nodes."""
    return places.shard.num_owned


class Pairs(Tensor):
    """Numbers of nodes of the whole graph, int64 ``[2, P]``, or one end of such pairs ``[P]``."""

    plan: Plan
    reads_rows = True

    @staticmethod
    def of(values: Tensor, places: NodePlaces, plan: Plan | None = None) -> Tensor:
        """``values`` as pairs; an end of pairs shares their ``plan``."""
        marked: Pairs = _bare(values).as_subclass(Pairs)
        marked.plan = plan or Plan(_bare(values), places)
        return marked

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Read rows by pairs, pick and join pairs; everything else is done with their plain numbers."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        first: Any = args[0] if args else None
        if name == "__getitem__" and isinstance(args[1], Pairs) and not isinstance(first, Pairs):
            return args[1].plan.read(first, _bare(args[1]))
        if name == "index_select" and not isinstance(first, Pairs) and args[1] == 0:
            return args[2].plan.read(first, _bare(args[2]))
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*changed(args, _bare), **changed(kwargs, _bare))
        if name in ("cat", "concat", "stack"):
            items = args[0] if args else kwargs["tensors"]
            if not all(isinstance(item, Pairs) for item in items):
                raise InputError(
                    "pairs of nodes of the whole graph are joined with other numbers; make all of them pairs: "
                    "data.pairs(index), or data.negative_sampling(count)"
                )
            return Pairs.of(out, items[0].plan.places)
        ends = name in ("unbind", "__iter__", "flip", "__getitem__") or name in KEEPING
        if not ends or name in ASKING or not isinstance(first, Pairs):
            return out
        out = tuple(out) if name == "__iter__" else out
        marked = changed(out, lambda value: _end(value, first.plan))
        return iter(marked) if name == "__iter__" else marked


def _end(value: Any, plan: Plan) -> Any:
    return Pairs.of(value, plan.places, plan) if isinstance(value, Tensor) and value.dtype == torch.int64 else value


def _bare(value: Any) -> Any:
    if isinstance(value, Pairs):
        with torch._C.DisableTorchFunctionSubclass():
            return value.as_subclass(Tensor)
    return value
