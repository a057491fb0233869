"""Rows of this worker's nodes, which may be picked by a mask of them, but not by the whole graph's node numbers.

``out[train_idx]`` with an index that was made before the graph was cut would pick other nodes, without an error. So
outputs of a distributed model, labels and masks know that their first dimension is this worker's nodes (`OwnRows`),
and an index that was made of them, or translated when the graph was cut, knows it too (`OwnIndex`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.pyg.cut_number import other_part
from halowire.pyg.edge_forms import ALL_EDGES, EdgeForm
from halowire.pyg.leaves import changed, leaves
from halowire.pyg.model_pass import ModelPass
from halowire.pyg.row_mixing import LOSSES, mixes_rows
from halowire.pyg.row_picks import kept_places, picked_rows

FINDING = {"nonzero", "argwhere", "where"}
"""Functions that give the places where a mask is true."""
PICKING = {"view", "reshape", "flatten", "squeeze", "unsqueeze", "contiguous", "clone", "to", "cpu", "cuda", "long",
           "detach", "__getitem__", "index_select", "masked_select", "sort", "unique", "flip", "t", "unbind", "split",
           "chunk", "expand", "repeat", "__deepcopy__"}  # fmt: skip
"""Functions whose results name the same nodes as their first argument, or some of them."""
JOINING = {"cat", "concat", "concatenate", "stack", "hstack"}
"""Functions whose results name all the nodes of their arguments."""
COPYING = {"__reduce_ex__", "__deepcopy__", "backward", "grad"}
"""Functions that take a tensor without its connections: to a file, a copy, or into backward, where layers may run."""
TURNING = {"t", "T", "mT", "H", "mH", "transpose", "swapaxes", "swapdims", "movedim", "permute", "adjoint", "unsqueeze",
           "__getitem__"}  # fmt: skip
"""Functions by which rows may become columns."""
SOME = {"__getitem__", "index_select", "masked_select"}
"""Functions that pick some of the rows."""
READING = {"__int__", "__float__", "__index__", "__format__", "item", "tolist"}
"""Functions that read a number."""


@dataclass(frozen=True, eq=False)
class Owner:
    """Whose rows they are: a worker with ``owned`` of the ``whole`` nodes, whose models run in ``passing``.

    Rows of nodes have the numbers ``rows`` in the whole graph. Rows of edges have the list ``form`` of the worker's
    edges; then ``owned`` counts its entries. ``kind`` is the type of the nodes or edges in a graph of several types.
    """

    owned: int
    whole: int
    passing: ModelPass
    form: EdgeForm = ALL_EDGES
    rows: Tensor | None = None
    kind: str | tuple[str, str, str] | None = None
    cut: int = 0
    """The number of the cut; parts whose rows are the same have the same number."""

    def apart(self, other: Owner) -> bool:
        """Whether the rows of ``other`` are other nodes of the same type."""
        nodes = self.rows is not None and other.rows is not None and self.kind == other.kind
        return nodes and self.cut != other.cut

    def __deepcopy__(self, memo: dict[int, object]) -> Owner:
        """Return the same owner: a copy of rows is this worker's too."""
        return self


class _Marked(Tensor):
    """A tensor with a mark that tells what its first dimension, or its numbers, mean on this worker."""

    owner: Owner
    unmarked: Tensor
    """The tensor itself; rows that are kept for all passes are known by it."""

    @classmethod
    def of(cls, value: Any, owner: Owner) -> Any:
        """``value`` with this mark; unchanged with one worker, whose nodes are those of the whole graph."""
        if owner.passing.transport.size == 1 or not isinstance(value, Tensor) or isinstance(value, cls):
            return value
        bare = plain(value)
        with torch._C.DisableTorchFunctionSubclass():
            marked: _Marked = bare.as_subclass(cls)
        marked.owner = owner
        marked.unmarked = bare
        return marked

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func`` on the plain tensors, refuse an index of the whole graph, and mark the result."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        for kind in types:
            if getattr(kind, "reads_rows", False):  # pairs of nodes of the whole graph fetch the rows that they name
                reader: Any = kind
                return reader.__torch_function__(func, types, args, kwargs)
        args = _without_own_numbers(name, args)
        _refuse_other_part(args, kwargs)
        _refuse_foreign(name, args, kwargs)
        mixing = _is_mixing(name, types, args, kwargs)
        try:
            out = cls._called(name, func, types, args, kwargs)
        except (IndexError, RuntimeError, ValueError) as error:
            _refuse_whole(args, kwargs, error)
            raise
        if name in READING and isinstance(args[0], OwnNumber):
            _warn_once(args[0].owner)
        if mixing:
            return _one_number(name, args, kwargs, out)
        if name == "__get__":  # a property, such as rows.T
            name = getattr(getattr(func, "__self__", None), "__name__", "")
        return _marked_result(name, args, kwargs, out)

    @classmethod
    def _called(
        cls, name: str, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """What ``func`` gives for the plain tensors; masks of rows pick by their places."""
        if name == "__getitem__" and len(args) == 2 and all(isinstance(value, OwnRows) for value in args):
            args = args[0], kept_places(*args, plain(args[1]))
        if name in COPYING or not set(types) <= KINDS:
            # Other classes of tensors, such as edges, have rules of their own and see plain rows.
            return func(*plain(args), **plain(kwargs))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)


class OwnRows(_Marked):
    """A tensor with one row for each of this worker's nodes."""


class OwnEdges(_Marked):
    """A tensor with one row for each of this worker's edges, or of another list of them."""


class OwnIndex(_Marked):
    """Numbers of this worker's own rows."""


class OwnSome(_Marked):
    """Some of this worker's rows, picked by a mask or by numbers of its own."""


class OwnColumns(_Marked):
    """A tensor with one column for each of this worker's rows: rows that were turned."""


class OwnNumber(_Marked):
    """One number that was counted, summed or averaged over rows of this worker alone."""


KINDS = {OwnRows, OwnEdges, OwnIndex, OwnSome, OwnColumns, OwnNumber, Tensor}
"""All these marks, and no other classes of tensors."""


def plain(value: Any) -> Any:
    """``value``, also inside tuples, lists and dictionaries, without these marks."""
    return changed(value, _plain)


def is_marked(value: Any) -> bool:
    """Whether there is such a mark in ``value``."""
    return any(isinstance(leaf, _Marked) for leaf in leaves(value))


def _plain(value: Any) -> Any:
    if not isinstance(value, _Marked):
        return value
    with torch._C.DisableTorchFunctionSubclass():
        bare: Tensor | None = vars(value).get("unmarked")
        if bare is None or bare.shape != value.shape or bare.data_ptr() != value.data_ptr():
            return value.as_subclass(Tensor)  # a script gave it other values: rows.data = ...
        return bare if bare.requires_grad == value.requires_grad else value.as_subclass(Tensor)


def _owner_of(args: Any) -> Owner:
    """The owner of the first marked tensor in ``args``."""
    return next(value.owner for value in leaves(args) if isinstance(value, _Marked))


def _marked_result(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """``out`` with the marks that it deserves."""
    first: Any = args[0] if args else None
    if isinstance(out, Tensor) and type(out) is not Tensor:
        return out
    owner = _owner_of((args, kwargs))
    if name in FINDING and len(args) == 1 and kwargs.keys() <= {"as_tuple"} and isinstance(first, OwnRows | OwnEdges):
        return changed(out, lambda found: OwnIndex.of(found, owner))
    indices = isinstance(first, OwnIndex) and name in PICKING
    joined = name in JOINING and all(isinstance(item, OwnIndex) for item in first)
    if indices or joined:
        return changed(out, lambda found: OwnIndex.of(found, owner) if _whole_numbers(found) else found)
    if not isinstance(out, Tensor):
        return out
    kind, owner = _kind_of(name, args, kwargs, out) or (None, owner)
    return out if kind is None else kind.of(out, owner)


def _kind_of(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor
) -> tuple[type[_Marked], Owner] | None:
    """The mark of ``out``, and whose rows it has."""
    first: Any = args[0] if args else None
    marked = [value for value in leaves((args, kwargs)) if isinstance(value, _Marked)]
    if not out.dim():
        return next(((OwnNumber, value.owner) for value in marked if isinstance(value, OwnNumber)), None)
    if _has_columns(name, first, out):
        return OwnColumns, first.owner
    # A list of tensors, or a plain tensor with as many rows, may come first: torch.cat([rows, more], 1), 1 - rows.
    for value in marked:
        rows = isinstance(value, OwnRows | OwnEdges) or (isinstance(value, OwnColumns) and name in TURNING)
        if rows and out.shape[0] == value.owner.owned:
            # Not `type(value)`: rows of a device may have a class of the device, and the result may be on the host.
            return OwnEdges if isinstance(value, OwnEdges) else OwnRows, value.owner
        if isinstance(value, OwnSome) and out.shape[0] == value.shape[0]:
            return OwnSome, value.owner
    return (OwnSome, first.owner) if name in SOME and isinstance(first, OwnRows | OwnEdges) else None


def _has_columns(name: str, first: Any, out: Tensor) -> bool:
    """Whether ``out`` has a column for each row, made of rows that were turned or of such columns."""
    turned = isinstance(first, OwnRows | OwnEdges) and name in TURNING
    if name == "__getitem__":  # rows[None]
        turned = turned and out.dim() > first.dim()
    if not (turned or isinstance(first, OwnColumns)) or out.dim() < 2:
        return False
    return bool(out.shape[1] == first.owner.owned != out.shape[0])


def _warn_once(owner: Owner) -> None:
    """Say, once, that a number that is read is this worker's."""
    if owner.passing.warned or owner.passing.inside:
        return
    owner.passing.warned = True
    warnings.warn(
        "a number of this worker's rows alone is read (int, float, item, a format); other workers have another one. "
        "The accuracy of the whole graph is data.mean(pred[mask] == data.y[mask]), a loss data.cross_entropy(out, "
        "data.y, mask); what decides when to stop, or on the learning rate, must be the same on all "
        "workers. This is said once",
        stacklevel=4,
    )


def _along(value: Any) -> int | None:
    """The dimension along which ``value`` has rows of this worker."""
    if isinstance(value, OwnColumns):
        return 1
    return 0 if isinstance(value, OwnRows | OwnEdges | OwnSome) and value.dim() else None


def _is_mixing(name: str, types: Sequence[type], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a function outside of a pass sums or meets rows; what other classes of tensors do is theirs."""
    if not set(types) <= KINDS or _owner_of((args, kwargs)).passing.inside:
        return False
    with torch._C.DisableTorchFunctionSubclass():
        numbers = any(isinstance(value, OwnNumber) and value.is_floating_point() for value in leaves((args, kwargs)))
        rows = any(isinstance(value, OwnRows | OwnEdges) for value in leaves((args, kwargs)))
        return (numbers and rows) or mixes_rows(name, args, kwargs, _along)


def _one_number(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """The result ``out`` of a sum over rows, if it is one number or counts whole numbers; else a refusal."""
    owner = _owner_of((args, kwargs))
    if isinstance(out, Tensor) and not out.dim():
        return OwnNumber.of(out, owner)
    numbers = (args, kwargs) if name in ("argsort", "argmax", "argmin") else out  # places among the own rows
    floating = any(isinstance(value, Tensor) and value.is_floating_point() for value in leaves(numbers))
    if not floating or name in LOSSES:
        return _marked_result(name, args, kwargs, out)
    raise InputError(
        f"{name} sums, normalises or multiplies over rows of this worker, which has {owner.owned} of the "
        f"{owner.whole} {owner.kind or 'nodes'}, outside of a distributed model, so that the rows of other workers are "
        "left out; give data.mean one value per row, make a norm or a product over edges part of the model, prepare "
        "features before halowire.shard, or take all rows, without a gradient: data.gather(rows)"
    )


def _without_own_numbers(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """``args``, where rows that are picked by the numbers of all own nodes, as in ``out[data.n_id]``, are all rows.

    So are those of ``out[torch.arange(data.num_nodes), data.y]``, one entry of each row.
    """
    if len(args) > 1 and name == "__getitem__" and isinstance(args[0], OwnRows) and _names_each(args[0], args[1]):
        return (args[0], (OwnIndex.of(args[1][0], args[0].owner), *args[1][1:]))
    picked = len(args) > 1 and name == "__getitem__" and isinstance(args[0], OwnRows) and isinstance(args[1], OwnRows)
    if not picked or not _whole_numbers(args[1]) or args[1].shape != (args[0].owner.owned,):
        return args
    rows = args[0].owner.rows
    return (args[0], slice(None)) if rows is not None and torch.equal(plain(args[1]).cpu(), rows) else args


def _names_each(rows: OwnRows, index: Any) -> bool:
    """Whether ``index`` is the numbers of all ``rows`` in their order, and for each of them a column of its own."""
    if not isinstance(index, tuple) or len(index) < 2 or not all(isinstance(item, Tensor) for item in index):
        return False
    numbers, columns = index[:2]
    if type(numbers) is not Tensor or not isinstance(columns, OwnRows) or columns.owner is not rows.owner:
        return False
    count = rows.owner.owned
    fits = numbers.dtype == torch.int64 and numbers.shape == (count,)
    return fits and torch.equal(numbers.cpu(), torch.arange(count))


def _refuse_whole(args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> None:
    """Say what to write where torch failed because a tensor of all nodes met rows of this worker."""
    owner = _owner_of((args, kwargs))
    given = [value for value in leaves((args, kwargs)) if isinstance(value, Tensor) and value.dim()]
    if owner.whole != owner.owned and any(value.shape[0] == owner.whole for value in given):
        raise InputError(
            f"a tensor of all {owner.whole} nodes is used with rows of this worker, which has {owner.owned} of them; "
            f"take its part first, tensor[{_numbers_of(owner)}], or make it an attribute of data before the graph is "
            "cut"
        ) from error


def _refuse_foreign(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse rows that are picked by numbers of the whole graph, and the other way round."""
    with torch._C.DisableTorchFunctionSubclass():
        picked = picked_rows(name, args, kwargs)
    if picked is None:
        return
    target, index = picked
    owner = _owner_of((args, kwargs))
    if owner.passing.inside or not isinstance(target, Tensor):
        return
    if isinstance(target, OwnRows | OwnEdges):
        _refuse_index(index, target)
    elif isinstance(index, OwnIndex) and not isinstance(target, OwnIndex):
        whole = owner.whole
        if target.shape[0] == whole != owner.owned:
            raise InputError(
                f"a tensor of all {whole} nodes is indexed by numbers of this worker's rows; take its part first: "
                f"tensor[{_numbers_of(owner)}]"
            )


def _refuse_other_part(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse rows of two parts of which a worker has other nodes."""
    owners = [value.owner for value in leaves((args, kwargs)) if isinstance(value, OwnRows | OwnIndex)]
    if any(owners[0].apart(owner) for owner in owners[1:]):
        raise other_part("an index, a mask or rows")


def _refuse_index(index: Any, rows: OwnRows | OwnEdges) -> None:
    """Refuse ``index`` unless it names rows of this worker."""
    owned, whole = rows.owner.owned, rows.owner.whole
    if index is None or index is Ellipsis or isinstance(index, OwnIndex):
        return
    if isinstance(index, str):
        what = index
    elif isinstance(index, slice):
        if index.indices(owned) == (0, owned, 1):
            return
        what = "a slice"
    elif isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8):
        if index.shape[:1] == (owned,):
            return
        what = f"a mask of {index.shape[0] if index.dim() else 0} entries"
    elif isinstance(index, Tensor) and not isinstance(index, _Marked) and type(index) is not Tensor:
        return  # edges, and other classes with rules of their own
    else:
        what = "numbers"
    if isinstance(rows, OwnEdges):
        raise InputError(
            f"values of this worker's {owned} edges are picked by {what}, which would be other edges on every worker; "
            "make a mask of the edges before the graph is cut (data.edge_mask) and pick by its part, or pick from the "
            "values of all workers: data.gather(values)"
        )
    more = f", {rows.owner.kind!r}" if rows.owner.kind else ""
    raise InputError(
        f"rows of this worker, which has {owned} of the {whole} {rows.owner.kind or 'nodes'}, are picked by {what}, "
        f"which would be other nodes on every worker; for numbers or a mask of the whole graph write "
        f"rows[data.translate(index{more})] (or halowire.shard(data, node_index=['name']) for an attribute of data), "
        f"for numbers of this worker's rows rows[data.own(index{more})]"
    )


def _numbers_of(owner: Owner) -> str:
    """What gives the whole graph's numbers of the rows, as a script writes it."""
    return f"data[{owner.kind!r}].rows" if owner.kind else "data.rows"


def _whole_numbers(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.int64
