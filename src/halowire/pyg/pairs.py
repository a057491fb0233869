"""Pairs of nodes of the whole graph, as ``RandomLinkSplit`` makes them: reading rows by them fetches those of others.

Each pair belongs to the owner of its first node. ``z[edge_label_index[0]]`` gives one row for each of this worker's
pairs, wherever the node lives, and in backward its gradient returns to the owner. In a graph of several node types the
two nodes of a pair may be of two types; each end of the pairs then reads rows of its own type.
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
from halowire.pyg.cut_number import other_part
from halowire.pyg.edges import ASKING, KEEPING
from halowire.pyg.leaves import changed
from halowire.pyg.model_pass import carries_gradient
from halowire.pyg.own_rows import OwnRows, plain
from halowire.pyg.seen import version_of
from halowire.pyg.typed_rows import ExtendTyped
from halowire.training import PairRows
from halowire.wire import Transport, sent_over

NAMES = ("edge_label_index", "edge_index")
"""How the names of pairs of nodes end; ``edge_index`` itself are the edges that messages pass along."""


def are_pairs(name: str, value: Any) -> bool:
    """Whether the attribute ``name`` holds pairs of nodes that are scored, ``[2, P]``."""
    whole = isinstance(value, Tensor) and value.dim() == 2 and value.shape[0] == 2 and value.dtype == torch.int64
    return whole and name != "edge_index" and name.endswith(NAMES)


def pair_names(tensors: Any) -> dict[str, str]:
    """The names of all pairs of nodes, and of the tensors with one row per pair; each with the name of its pairs.

    What belongs to ``edge_label_index`` is named ``edge_label`` or ``edge_label_...``; what belongs to
    ``train_edge_index``, ``train_edge_type`` and the like.
    """
    found = {name: name for name, value in tensors.items() if are_pairs(name, value)}
    for pairs in list(found):
        stem, count = pairs.removesuffix("_index"), tensors[pairs].shape[1]
        for name, rows in tensors.items():
            named = name == stem or name.startswith(f"{stem}_")
            if named and name not in found and isinstance(rows, Tensor) and rows.shape[:1] == (count,):
                found[name] = pairs
    return found


@dataclass(frozen=True, eq=False)
class NodePlaces:
    """For every node of a type its ``owner`` and its row there, ``place``, int32 ``[N]``; how rows are fetched.

    ``ids`` are the numbers of this worker's nodes, ``[n]``; ``name`` is the type, empty in a graph of one type. ``cut``
    is the number of the cut.
    """

    owner: Tensor
    place: Tensor
    ids: Tensor
    transport: Transport
    device: torch.device
    name: str = ""
    cut: int = 0

    @staticmethod
    def of(
        ids: Tensor, num_nodes: int, transport: Transport, device: torch.device, name: str = "", cut: int = 0
    ) -> NodePlaces:
        """Ask all workers, together, where their nodes are."""
        table = torch.zeros(2, num_nodes, dtype=torch.int32)
        table[0, ids] = transport.rank
        table[1, ids] = torch.arange(ids.numel(), dtype=torch.int32)
        owner, place = transport.all_reduce(table, "places of all nodes", SETUP)
        return NodePlaces(owner, place, ids, transport, device, name, cut)

    def __deepcopy__(self, memo: dict[int, object]) -> NodePlaces:
        """Return the same places."""
        return self

    @property
    def rank(self) -> int:
        """This worker."""
        return self.transport.rank

    @property
    def num_owned(self) -> int:
        """The number of this worker's nodes."""
        return self.ids.numel()


@dataclass(eq=False)
class Plan:
    """The rows that the pairs ``nodes`` need, and the table of the last rows that were read by them."""

    nodes: Tensor
    places: NodePlaces
    _rows: PairRows | None = None
    _known: tuple[Tensor, Tensor] | None = field(default=None, repr=False)
    _last: tuple[Any, tuple[int, bool], Tensor] | None = field(default=None, repr=False)

    def table(self, rows: Tensor) -> Tensor:
        """The owned ``rows`` ``[n, k]``, then the fetched ones; both ends of the pairs are read from one table."""
        where = self.places
        if self._rows is None:
            where.transport.settle()
            self._rows = PairRows(self.nodes.cpu(), where, where, where.transport, where.device)
        # A table that was read without a gradient has no way back to the rows.
        state = (version_of(rows), carries_gradient(rows))
        if self._last is not None and self._last[0]() is rows and state[0] > -1 and self._last[1] == state:
            return self._last[2]
        table = self._extended(self._rows, plain(rows))
        self._last = (weakref.ref(rows, self._forget), state, table)
        return table

    def read(self, rows: Tensor, nodes: Tensor) -> Tensor:
        """The rows of ``nodes``, which are among those of the plan."""
        where = self.places
        if isinstance(rows, OwnRows) and (rows.owner.kind or "") == where.name and rows.owner.cut != where.cut:
            raise other_part("pairs of nodes")
        if rows.shape[0] != where.num_owned:
            raise InputError(
                f"a tensor of shape {list(rows.shape)} is read by pairs of nodes; it must have one row for each of the "
                f"{where.num_owned} {where.name or 'nodes'} of this worker, as the output of the model does"
            )
        if not rows.is_floating_point():
            raise InputError(f"rows are read by pairs of nodes as numbers, not {rows.dtype}; call .float() before")
        flat = rows if rows.dim() == 2 else rows.reshape(rows.shape[0], -1)
        if torch.is_inference_mode_enabled():
            # What is kept for later reads must not be made of inference tensors, which training cannot use.
            with torch.inference_mode(False), torch.no_grad():
                table = self.table(flat)
        else:
            table = self.table(flat)
        assert self._rows is not None
        return table[self._places(self._rows, nodes)].view(*nodes.shape, *rows.shape[1:])

    def _places(self, found: PairRows, nodes: Tensor) -> Tensor:
        """The places of ``nodes`` in the table, looked up on the device, so that the host need not wait for them."""
        device = self.places.device
        if self._known is None:
            named = torch.unique(self.nodes.cpu())
            self._known = sent_over(named, device), found.places(named)
        named, places = self._known
        return places[torch.searchsorted(named, nodes.to(device).contiguous())]

    def _extended(self, found: PairRows, rows: Tensor) -> Tensor:
        """``rows``, then those that other workers have, in their own type."""
        if rows.dtype == torch.float32 or self.places.transport.size == 1:
            return found.table(rows)
        out: Tensor = ExtendTyped.apply(rows, found.lists, self.places.transport)  # type: ignore[no-untyped-call]
        return out

    def _forget(self, _: object) -> None:
        self._last = None


class Pairs(Tensor):
    """Numbers of nodes of the whole graph, int64 ``[2, P]``, or one end of such pairs ``[P]``.

    ``plans`` is one plan, which reads rows by all of these numbers, or, where the two ends ``[2, P]`` name nodes of two
    types, a plan for each of them.
    """

    plans: tuple[Plan, ...]
    reads_rows = True

    @staticmethod
    def of(values: Tensor, *plans: Plan) -> Tensor:
        """``values`` as pairs, or an end of them, whose rows are read by ``plans``."""
        marked: Pairs = _bare(values).as_subclass(Pairs)
        marked.plans = plans
        return marked

    @staticmethod
    def between(values: Tensor, places: Sequence[NodePlaces]) -> Tensor:
        """``values`` ``[2, P]``, whose ends name nodes of the types that the two ``places`` are of."""
        values = _bare(values)
        if places[0] is places[-1]:
            return Pairs.of(values, Plan(values, places[0]))
        return Pairs.of(values, *(Plan(end, where) for end, where in zip(values, places, strict=True)))

    @property
    def places(self) -> tuple[NodePlaces, ...]:
        """Where the nodes of each plan are."""
        return tuple(plan.places for plan in self.plans)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Read rows by pairs, pick and join pairs; everything else is done with their plain numbers."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        first: Any = args[0] if args else None
        if name == "__getitem__" and isinstance(args[1], Pairs) and not isinstance(first, Pairs):
            return _read(args[1], first)
        if name == "index_select" and not isinstance(first, Pairs) and args[1] == 0:
            return _read(args[2], first)
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*changed(args, _bare), **changed(kwargs, _bare))
        if name in ("cat", "concat", "stack"):
            return _joined(name, args[0] if args else kwargs["tensors"], out)
        if name in ASKING or not isinstance(first, Pairs):
            return out
        out = tuple(out) if name == "__iter__" else out
        marked = _ends(name, args, out) if len(first.plans) > 1 else _picked(name, first.plans, out)
        return iter(marked) if name == "__iter__" else marked


def refuse_ends(value: Pairs) -> None:
    """Refuse one end of pairs as an argument of a model, where it could be any numbers."""
    if value.dim() != 2 or value.shape[0] != 2:
        raise InputError(
            f"the model is called with numbers of nodes of shape {list(value.shape)}; pass both ends of the pairs as "
            "one tensor [2, P], such as data.edge_label_index, and take them apart in its forward"
        )


def _read(index: Pairs, rows: Tensor) -> Tensor:
    if len(index.plans) > 1:
        raise InputError(
            "rows are read by pairs whose two ends are nodes of two types; read each end by itself: "
            "source, target = edge_label_index"
        )
    return index.plans[0].read(rows, _bare(index))


def _picked(name: str, plans: tuple[Plan, ...], out: Any) -> Any:
    """``out`` of an operation on numbers that share a plan, marked where it holds some of them."""
    if name not in ("unbind", "__iter__", "flip", "__getitem__") and name not in KEEPING:
        return out
    return changed(out, lambda value: _marked(value, plans))


def _ends(name: str, args: tuple[Any, ...], out: Any) -> Any:
    """``out`` of an operation on pairs of two types, each end of which keeps its own plan."""
    plans = args[0].plans
    if name in ("unbind", "__iter__") and len(out) == len(plans):
        return tuple(_marked(end, (plan,)) for end, plan in zip(out, plans, strict=True))
    if name == "flip" and args[1:] in ((0,), ([0],), ((0,),)):
        return _marked(out, plans[::-1])
    if name == "__getitem__":
        index = args[1][0] if isinstance(args[1], tuple) and args[1] else args[1]
        if index is Ellipsis:
            return _marked(out, plans)
        if isinstance(index, int):
            return _marked(out, (plans[index],))
        return _marked(out, plans[index]) if isinstance(index, slice) else out
    return _marked(out, plans) if name in KEEPING else out


def _joined(name: str, items: Sequence[Any], out: Tensor) -> Tensor:
    """``out``, which joins ``items``: more pairs of the same types, or two ends that make pairs."""
    if not all(isinstance(item, Pairs) for item in items):
        raise InputError(
            "pairs of nodes of the whole graph are joined with other numbers; make all of them pairs: "
            "data.pairs(index), or data.negative_sampling(count)"
        )
    kinds = [item.places for item in items]
    if name == "stack" and len(items) == 2 and all(len(kind) == 1 for kind in kinds):
        return Pairs.between(out, [kind[0] for kind in kinds])
    if any(kind != kinds[0] for kind in kinds):
        raise InputError("pairs of nodes of different types are joined; join pairs of one edge type only")
    if len(kinds[0]) == 1:
        return Pairs.of(out, Plan(_bare(out), kinds[0][0]))
    return Pairs.between(out, kinds[0]) if out.shape[0] == 2 else out


def _marked(value: Any, plans: tuple[Plan, ...]) -> Any:
    return Pairs.of(value, *plans) if isinstance(value, Tensor) and value.dtype == torch.int64 else value


def _bare(value: Any) -> Any:
    if isinstance(value, Pairs):
        with torch._C.DisableTorchFunctionSubclass():
            return value.as_subclass(Tensor)
    return value
