"""``edge_index`` of a shard is a tensor that knows which of its numbers are sources, and so may be halo rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._guards import TracingContext

from halowire.errors import InputError
from halowire.pyg.bridge import Bridge
from halowire.pyg.edge_ends import at_targets, refuse_drawn
from halowire.pyg.edge_forms import ALL_EDGES
from halowire.pyg.edge_mask import EdgeMask, listed
from halowire.pyg.leaves import changed, leaves
from halowire.pyg.sparse_gradient import SparseGradient
from halowire.pyg.stacked import Stacked
from halowire.pyg.written import Asked, in_a_model

KEEPING = {"clone", "detach", "contiguous", "to", "long", "cpu", "cuda", "requires_grad_", "alias", "int"}
"""Operations that leave the numbers and their places as they are."""
SHAPING = {
    "view", "reshape", "expand", "expand_as", "unsqueeze", "squeeze", "flatten", "repeat", "masked_select", "take",
}  # fmt: skip
"""Operations that leave a list of sources a list of sources."""
ASKING = {
    "size", "numel", "nelement", "dim", "ndimension", "element_size", "is_floating_point", "is_complex", "stride",
    "is_contiguous", "__len__", "__repr__", "__format__", "__str__", "data_ptr", "get_device", "new_zeros", "new_ones",
    "new_full", "new_empty", "new_tensor", "zeros_like", "ones_like", "empty_like", "full_like",
    "__hash__", "type", "is_same_size", "is_inference", "is_tensor", "is_storage", "result_type",
    "is_shared", "is_pinned", "storage_offset", "untyped_storage",
}  # fmt: skip
"""Questions whose answer does not depend on how the shard numbers its nodes."""
TENSORS = {"T", "mT", "H", "mH", "data", "grad", "real", "imag"}
"""Properties that are tensors themselves."""


class Edges(Tensor):
    """int64 ``[2, E]`` edges of a shard, or a list of sources taken from it, in any shape.

    Rows are numbered ``0..n-1`` (owned) and ``n..n+h-1`` (halo). ``sources`` says which of the two rows of ``[2, E]``
    hold sources; a list of sources has ``(True,)``. Reading a tensor of owned rows by sources exchanges the halo's
    rows; adding to such a tensor by sources sends the halo's parts to their owners. An operation whose result depends
    on the numbering is refused.
    """

    bridge: Bridge | Stacked
    sources: tuple[bool, ...]
    form = ALL_EDGES
    """The list of edges that a model gave."""
    largest: int | None = None
    """The largest number of a list of sources, where it is known without a look at them."""

    @staticmethod
    def of(values: Tensor, bridge: Bridge | Stacked, sources: tuple[bool, ...] = (True, False)) -> Tensor:
        """``values`` as marked edges, or as targets where none of their rows holds ``sources``."""
        if not any(sources):
            return at_targets(values, bridge)
        marked: Edges = unmarked(values).as_subclass(Edges)
        marked.bridge = bridge
        marked.sources = sources
        return marked

    def like(self, values: Tensor, sources: tuple[bool, ...] | None = None) -> Tensor:
        """Mark ``values`` as these edges are marked, or with other ``sources``."""
        return Edges.of(values, self.bridge, self.sources if sources is None else sources)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func`` on marked edges with the result that it has on the whole graph, or refuse it."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", str(func))
        if name == "__get__":
            return _property(func, args)
        if name == "__set__" and _name_of(func) == "requires_grad" and not args[1]:
            return None  # whole numbers never have a gradient
        if name in ("__set__", "__delete__"):
            raise _refusal(f".{_name_of(func)} = ...")
        if name in ASKING:
            return func(*unmarked(args), **unmarked(kwargs))
        handler = HANDLERS.get(name)
        if handler is not None:
            return handler(func, args, kwargs)
        first: Any = args[0] if args else None
        alone = isinstance(first, Edges) and not holds(args[1:]) and not holds(kwargs)
        if alone and (name in KEEPING or (name in SHAPING and first.sources == (True,))):
            return first.like(func(unmarked(first), *args[1:], **kwargs))
        raise _refusal(name)


def unmarked(value: Any) -> Any:
    """``value``, also inside tuples, lists and dictionaries, without marks."""
    return changed(value, _unmark)


def _unmark(value: Any) -> Any:
    if isinstance(value, Edges):
        with torch._C.DisableTorchFunctionSubclass():
            return value.as_subclass(Tensor)
    return value


def holds(value: Any) -> bool:
    """Whether there are marked edges in ``value``."""
    return any(isinstance(leaf, Edges) for leaf in leaves(value))


def _refusal(name: str) -> InputError:
    if TracingContext.try_get() is not None:
        return InputError(
            "torch.compile cannot follow edges to other workers; after halowire.distribute, compile the layers that "
            "are not called with edge_index instead, such as model.mlp.compile()"
        )
    asked = Asked.here()
    if "negative_sampling" in asked.function and not in_a_model():
        return InputError(
            f"{asked.words(name)} draws among the nodes of this worker; data.negative_sampling(count) draws pairs "
            "without an edge for all workers together"
        )
    if "negative_sampling" in asked.function or asked.layer == "SuperGATConv":
        return InputError(
            f"{asked.words(name)} is for drawn pairs of nodes, and every worker would draw others; in forward, draw "
            "them with halowire.Random: self.random.negatives(edge_index, x.size(0)), and pass them on (SuperGATConv "
            "takes them as neg_edge_index)"
        )
    return InputError(
        f"{asked.words(name)} depends on how a worker numbers its nodes; a model can index nodes by edges, add to "
        "nodes by edges, remove or add edges and self loops. Where a function wants to know the number of nodes, pass "
        "num_nodes=x.size(0); do everything else before the graph is cut"
    )


def _name_of(func: Callable[..., Any]) -> str:
    """The name of the property that ``func`` reads or sets."""
    return getattr(getattr(func, "__self__", None), "__name__", "")


def _property(func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    name = _name_of(func)
    if name == "grad" and TracingContext.try_get() is None:
        return None  # whole numbers never have a gradient; a checkpoint asks all of its inputs
    if name in TENSORS:
        raise _refusal(f".{name}")
    return func(*unmarked(args))


def _get(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Serve ``edges[...]``, which picks edges, and ``x[sources]``, which reads rows of nodes."""
    target, index = args
    if not holds(index):
        return _pick(func, target, index)
    where = index if isinstance(index, tuple) else (index,)
    dims = [place for place, item in enumerate(where) if isinstance(item, Edges)]
    others = [item for item in where if not isinstance(item, Edges)]
    if len(dims) != 1 or isinstance(target, Edges) or any(not isinstance(item, slice) for item in others):
        raise _refusal("__getitem__")
    return func(_extended(target, dims[0], where[dims[0]]), unmarked(index))


def _pick(func: Callable[..., Any], edges: Edges, index: Any) -> Any:
    """``edges[index]``, marked as the rows that ``index`` picks are."""
    values, mask = unmarked(edges), index
    if any(isinstance(leaf, Tensor) for leaf in leaves(index)):
        refuse_drawn(edges.bridge)
    index = listed(index, values.shape)
    if len(edges.sources) == 1:
        picked = func(values, index)
        found = edges.like(picked)
        if isinstance(mask, EdgeMask) and isinstance(found, Edges):
            found.largest = mask.largest(values, picked)
        return found
    rows = index[0] if isinstance(index, tuple) and index else index
    if rows is Ellipsis or (isinstance(index, tuple) and len(index) != 2):
        raise _refusal("__getitem__")
    if isinstance(rows, int):
        kept: tuple[bool, ...] = (edges.sources[rows],)
    elif isinstance(rows, slice):
        kept = edges.sources[rows]
    elif isinstance(rows, list | tuple) and all(isinstance(row, int) for row in rows):
        kept = tuple(edges.sources[row] for row in rows)
    else:
        raise _refusal("__getitem__")
    return edges.like(func(values, index), kept)


def _set(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Serve ``x[sources] = values`` where all sources are owned, as those of self loops are, and ``edges[0] = row``."""
    target, index, values = args
    if isinstance(target, Edges) and isinstance(index, int):
        return _set_row(func, target, index, values)
    if not isinstance(index, Edges) or isinstance(target, Edges) or holds(values):
        raise _refusal("__setitem__")
    rows = unmarked(index)
    largest = index.largest
    if largest is None:
        largest = int(rows.max()) if rows.numel() else -1
    if largest >= index.bridge.num_owned:
        raise _refusal("__setitem__")
    return func(target, rows, values)


def _set_row(func: Callable[..., Any], edges: Edges, row: int, values: Any) -> None:
    """Serve ``edges[0] += first``, whose last step is ``edges[0] = row``; the edges take over how ``row`` counts."""
    marks = values.sources if isinstance(values, Edges) else (False,)
    if len(edges.sources) != 2 or marks != (edges.sources[row],) or (marks[0] and all(edges.sources)):
        raise _refusal("__setitem__")
    func(unmarked(edges), row, unmarked(values))
    if isinstance(values, Edges):
        edges.bridge = values.bridge


def _shift(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Serve ``edges + first``, which moves the nodes of a type behind those of others in one tensor.

    ``edges[0] += first`` does not change the memory here, but where its last step, ``edges[0] = row``, writes to it.
    """
    edges, by = _bound(args, kwargs, "other")
    if not isinstance(edges, Edges):
        edges, by = by, edges
    if isinstance(by, Edges) or not isinstance(by, int | Tensor):
        raise _refusal(func.__name__)
    steps = [by] * len(edges.sources)
    if isinstance(by, Tensor) and by.numel() > 1:
        if by.shape != (len(edges.sources), 1):
            raise _refusal(func.__name__)
        steps = list(by)
    first = {int(step) for step, is_source in zip(steps, edges.sources, strict=True) if is_source}
    if len(first) != 1:
        raise _refusal(func.__name__)
    rows = first.pop()
    bridge = Stacked.of(edges.bridge).shifted(rows) if rows else edges.bridge
    return Edges.of(unmarked(edges) + by, bridge, edges.sources)


def _extended(values: Tensor, dim: int, index: Edges) -> Tensor:
    bridge = index.bridge
    if not bridge.fits(values.shape[dim]):
        raise InputError(
            f"the model reads a tensor of shape {list(values.shape)} by the edges' sources; dimension {dim} must have "
            f"one entry for each of the {bridge.num_owned} nodes of this worker"
        )
    return bridge.extend(values, dim % values.dim())


def _select(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Serve ``index_select`` and ``gather``, which pick edges by position, or read nodes by sources."""
    target, dim, index = _bound(args, kwargs, "dim", "index")
    if isinstance(target, Edges):
        if isinstance(index, Edges) or (len(target.sources) == 2 and dim not in (1, -1)):
            raise _refusal("index_select")
        return target.like(func(unmarked(target), dim, index))
    return func(_extended(target, dim, index), dim, unmarked(index))


def _embed(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Serve ``embedding(sources, weight)``, which reads a weight with a row for each node."""
    index, weight = args[:2]
    if not isinstance(index, Edges) or holds(args[1:]):
        raise _refusal("embedding")
    if kwargs.get("sparse"):
        weight = SparseGradient.apply(weight)  # type: ignore[no-untyped-call]
    return func(unmarked(index), _extended(weight, 0, index), *args[2:], **{**kwargs, "sparse": False})


def _add(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Serve ``scatter_add``, ``index_add`` and their in-place forms: sums at sources are completed at their owners."""
    name = func.__name__
    rest = ("dim", "index", "source" if name.startswith("index") else "src")
    target, dim, index, values = _bound(args, kwargs, *rest)
    if not isinstance(index, Edges) or isinstance(target, Edges) or holds(values) or len(kwargs) > len(rest):
        raise _refusal(name)
    bridge = index.bridge
    dim = dim % target.dim()
    if not bridge.fits(target.shape[dim]):
        raise _refusal(name)
    shape = list(target.shape)
    shape[dim] = bridge.num_owned + bridge.num_halo
    parts = values.new_zeros(shape)
    add = parts.index_add if name.startswith("index") else parts.scatter_add
    total = bridge.collect(add(dim, unmarked(index), values), dim)
    shape[dim] = target.shape[dim] - bridge.num_owned
    if shape[dim]:  # rows behind the blocks of all sources
        total = torch.cat([total, total.new_zeros(shape)], dim)
    return target.add_(total) if name.endswith("_") else target + total


def _bound(args: tuple[Any, ...], kwargs: Any, *names: str) -> list[Any]:
    """``args`` and ``kwargs`` as one list: the tensor, then the arguments ``names``."""
    values = list(args) + [kwargs[name] for name in ("input", *names)[len(args) :] if name in kwargs]
    if len(values) != len(names) + 1:
        raise _refusal("scatter")
    return values


def _join(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Serve ``cat`` along the edges and ``stack`` of the two rows; unmarked tensors must hold numbers of owned rows."""
    items = list(args[0] if args else kwargs["tensors"])
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    edges = next(item for item in items if isinstance(item, Edges))
    sources = [item.sources if isinstance(item, Edges) else (False,) * (1 if item.dim() == 1 else 2) for item in items]
    if len({len(marks) for marks in sources}) > 1 or any(item.dim() > 2 for item in items):
        raise _refusal(func.__name__)
    if func.__name__ == "stack":
        if len(sources[0]) != 1 or dim != 0:
            raise _refusal("stack")
        joined = tuple(marks[0] for marks in sources)
    else:
        if dim not in ((1, -1) if len(sources[0]) == 2 else (0, -1)):
            raise _refusal("cat")
        joined = tuple(any(marks) for marks in zip(*sources, strict=True))
    bridge, alike = _alike(items, edges)
    return Edges.of(func(alike, dim), bridge, joined)


def _alike(items: list[Any], edges: Edges) -> tuple[Bridge | Stacked, list[Tensor]]:
    """The tensors of a list, unmarked, with their sources numbered as rows of one bridge."""
    bridges = [item.bridge if isinstance(item, Edges) else edges.bridge for item in items]
    if all(bridge == bridges[0] for bridge in bridges):
        return bridges[0], unmarked(items)
    stacked, numberings = Stacked.joined(bridges)
    found = []
    for item, numbering in zip(items, numberings, strict=True):
        values = unmarked(item)
        if isinstance(item, Edges) and len(item.sources) == 2:
            rows = zip(values, item.sources, strict=True)
            values = torch.stack([numbering(row) if is_source else row for row, is_source in rows])
        elif isinstance(item, Edges):
            values = numbering(values)
        found.append(values)
    return stacked, found


def _unbind(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Serve ``row, col = edge_index``."""
    edges = args[0]
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if len(edges.sources) != 2 or dim != 0:
        raise _refusal("unbind")
    ends = zip(unmarked(edges).unbind(0), edges.sources, strict=True)
    rows = [edges.like(end, (is_source,)) for end, is_source in ends]
    return iter(rows) if func.__name__ == "__iter__" else tuple(rows)


def _flip(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Serve ``edge_index.flip(0)``, the same edges in the opposite direction."""
    edges = args[0]
    dims = args[1] if len(args) > 1 else kwargs.get("dims")
    if len(edges.sources) != 2 or dims not in (0, [0], (0,)):
        raise _refusal("flip")
    return edges.like(unmarked(edges).flip(0), edges.sources[::-1])


def _compare(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Serve ``row == col``, which finds self loops, as a mask; refuse numbers: every worker has others."""
    first, second = _bound(args, kwargs, "other")
    if not all(isinstance(ends, Tensor) and ends.dim() == 1 and ends.shape == first.shape for ends in (first, second)):
        raise _refusal(func.__name__)
    bridge = next(ends.bridge for ends in (first, second) if isinstance(ends, Edges))
    first, second = unmarked(first), unmarked(second)
    return bridge.known.compare(func, first, second) if bridge.passing.serves else func(first, second)


def _itself(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Serve ``edges.view_as(edges)``, by which the backward hook of a module passes its inputs on."""
    edges, other = args
    if edges is not other:
        raise _refusal("view_as")
    return edges.like(func(unmarked(edges), unmarked(other)))


def _copy(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Serve ``copy.deepcopy(edges)``: the copy has the same marks and the same bridge."""
    return args[0].like(unmarked(args[0]).clone())


HANDLERS: dict[str, Callable[[Callable[..., Any], tuple[Any, ...], Any], Any]] = {
    "__getitem__": _get, "__setitem__": _set, "index_select": _select, "gather": _select,
    "embedding": _embed,
    "scatter_add": _add, "scatter_add_": _add, "index_add": _add, "index_add_": _add,
    "cat": _join, "concat": _join, "concatenate": _join, "stack": _join,
    "unbind": _unbind, "__iter__": _unbind, "flip": _flip, "__deepcopy__": _copy, "view_as": _itself,
    "add": _shift, "__add__": _shift, "__radd__": _shift, "__iadd__": _shift, "add_": _shift,
    "eq": _compare, "__eq__": _compare, "ne": _compare, "__ne__": _compare,
}  # fmt: skip
