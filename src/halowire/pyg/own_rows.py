"""Rows of this worker's nodes, which may be picked by a mask of them, but not by the whole graph's node numbers.

``out[train_idx]`` with an index that was made before the graph was cut would pick other nodes, without an error. So
outputs of a distributed model, labels and masks know that their first dimension is this worker's nodes (`OwnRows`),
and an index that was made of them, or translated when the graph was cut, knows it too (`OwnIndex`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from halowire.pyg.cut_number import other_part
from halowire.pyg.foreign_rows import foreign_edges, foreign_nodes, indexed_whole, refuse_shares, whole_tensor
from halowire.pyg.leaves import changed, leaves
from halowire.pyg.mixed_rows import mixed_rows, warn_once
from halowire.pyg.row_call import Call
from halowire.pyg.row_dims import dims_after
from halowire.pyg.row_mixing import SPREADING, mixes_rows
from halowire.pyg.row_owner import Owner
from halowire.pyg.row_picks import kept_places, picked_rows
from halowire.pyg.row_wise import is_pointwise
from halowire.pyg.view_dims import Dims

FINDING = {"nonzero", "argwhere", "where"}
"""Functions that give the places where a mask is true."""
PICKING = {"view", "reshape", "flatten", "squeeze", "unsqueeze", "contiguous", "clone", "to", "cpu", "cuda", "long",
           "detach", "__getitem__", "index_select", "masked_select", "sort", "unique", "flip", "t", "unbind", "split",
           "chunk", "expand", "repeat", "__deepcopy__"}  # fmt: skip
"""Functions whose results name the same nodes as their first argument, or some of them."""
SHAPING_ENDS = {"view", "expand", "expand_as", "reshape", "unsqueeze", "clone", "contiguous", "to", "long", "view_as"}
"""Functions whose results still name the targets of edges."""
JOINING = {"cat", "concat", "concatenate", "stack", "hstack"}
"""Functions whose results name all the nodes of their arguments."""
COPYING = {"__reduce_ex__", "__deepcopy__", "backward", "grad"}
"""Functions that take a tensor without its connections: to a file, a copy, or into backward, where layers may run."""
READING = {"__int__", "__float__", "__index__", "__format__", "item", "tolist"}
"""Functions that read a number."""
LOOKING = {"equal", "allclose", "is_same_size", "__len__", "size", "dim", "numel", "__repr__", "__str__"}
"""Functions that may compare rows with anything, as checks in scripts do."""


class _Marked(Tensor):
    """A tensor with a mark that tells where it has rows of this worker, or what its numbers mean."""

    owner: Owner
    unmarked: Tensor
    """The tensor itself; rows that are kept for all passes are known by it."""
    dims: Dims = frozenset()
    """The dimensions along which there are different rows of this worker."""
    counted = ""
    """The function that counted or summed rows, where there are no rows any more."""

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
        """Call ``func`` on the plain tensors, refuse what needs the rows of other workers, and mark the result."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        of = func if name != "__get__" else getattr(func, "__self__", func)  # a property, such as rows.T
        asked = getattr(of, "__name__", "")
        for kind in types:
            if getattr(kind, "reads_rows", False):  # pairs of nodes of the whole graph fetch the rows that they name
                reader: Any = kind
                return reader.__torch_function__(func, types, args, kwargs)
        args = _without_own_numbers(name, args)
        _refuse_other_part(args, kwargs)
        _refuse_foreign(name, args, kwargs)
        call = Call.of(func, asked, args, kwargs, _along, owner_of((args, kwargs)).owned)
        mixing = name not in COPYING and _is_mixing(call, types)
        try:
            out = cls._called(name, func, types, args, kwargs)
        except (IndexError, RuntimeError, ValueError) as error:
            _refuse_whole(args, kwargs, error)
            raise
        if name in READING and isinstance(args[0], OwnNumber | OwnMixed):
            warn_once(args[0].owner)
        with torch._C.DisableTorchFunctionSubclass():
            return _of_several(call, out) if mixing else _marked_result(call, types, out)

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

    dims = frozenset({0})


class OwnEdges(_Marked):
    """A tensor with one row for each of this worker's edges, or of another list of them."""

    dims = frozenset({0})


class OwnIndex(_Marked):
    """Numbers of this worker's own rows."""


class OwnEnds(_Marked):
    """Numbers of the rows that this worker's edges lead to, one for each of them."""


class OwnSome(_Marked):
    """Some of this worker's rows, or several of each: rows that were picked, joined, or made one list of numbers."""

    dims = frozenset({0})


class OwnTurned(_Marked):
    """A tensor with rows of this worker along other dimensions than the first: ``rows.t()``, ``rows[None]``."""


class OwnNumber(_Marked):
    """One number that was counted, summed or averaged over rows of this worker alone."""


class OwnMixed(_Marked):
    """Numbers each of which depends on several rows of this worker, or on their order."""


KINDS = {OwnRows, OwnEdges, OwnIndex, OwnEnds, OwnSome, OwnTurned, OwnNumber, OwnMixed, Tensor}
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


def owner_of(args: Any) -> Owner:
    """The owner of the first marked tensor in ``args``."""
    return next(value.owner for value in leaves(args) if isinstance(value, _Marked))


def _along(value: Any) -> Dims:
    """The dimensions along which ``value`` has rows of this worker."""
    return value.dims if isinstance(value, _Marked) else frozenset()


def _marked_result(call: Call, types: Sequence[type], out: Any) -> Any:
    """``out`` with the marks that it deserves."""
    first: Any = call.args[0] if call.args else None
    if isinstance(out, Tensor) and type(out) is not Tensor:
        return out
    owner = owner_of((call.args, call.kwargs))
    alone = len(call.args) == 1 and call.kwargs.keys() <= {"as_tuple"}
    if call.name in FINDING and alone and isinstance(first, OwnRows | OwnEdges):
        return changed(out, lambda found: OwnIndex.of(found, owner))
    indices = isinstance(first, OwnIndex) and call.name in PICKING
    joined = call.name in JOINING and all(isinstance(item, OwnIndex) for item in first)
    if indices or joined:
        return changed(out, lambda found: OwnIndex.of(found, owner) if _whole_numbers(found) else found)
    if owner.passing.serves:  # every call of a model is rehearsed
        return out
    known = set(types) <= KINDS
    if (ends := _at_ends(call, out)) is not None:
        return ends
    return changed(out, lambda leaf: _marked(call, leaf, known) if isinstance(leaf, Tensor) else leaf)


def _at_ends(call: Call, out: Any) -> Any:
    """What ``call`` adds up at the targets of edges, or makes of these or of rows at these; None for all else."""
    targets = _targets(call)
    if targets is not None:
        return OwnRows.of(out, targets)
    ends = next((value for value in call.tensors if isinstance(value, OwnEnds)), None)
    if ends is None or not isinstance(out, Tensor):
        return None
    targets = ends.owner.targets
    if call.base == "bincount" and targets is not None:  # in-degrees, if there is one for each node
        return OwnRows.of(out, targets) if out.shape == (targets.owned,) else _counted(targets, call.base, out)
    if call.base in SHAPING_ENDS:
        return OwnEnds.of(out, ends.owner)
    picked = call.base in ("__getitem__", "index_select") and call.along(call.first) == {0}
    return OwnEdges.of(out, ends.owner) if picked and out.shape[:1] == (ends.owner.owned,) else None


def _marked(call: Call, out: Tensor, known: bool) -> Any:
    """A tensor ``out`` that ``call`` gives, with its mark; ``known`` says whether the rules of torch hold for it."""
    if call.name.startswith("new_") and out.dim():
        like = (value for value in call.tensors if isinstance(value, OwnRows | OwnEdges))
        return next((type(value).of(out, value.owner) for value in like if len(out) == value.owner.owned), out)
    several = next((value for value in call.tensors if isinstance(value, OwnNumber | OwnMixed)), None)
    if several is not None:
        return _counted(several.owner, several.counted, out)
    rows = [value for value in call.tensors if isinstance(value, _Marked) and value.dims]
    if not rows:
        return out
    if not out.dim():
        return _counted(rows[0].owner, call.base, out)
    dims = dims_after(call, out)
    if dims is None:
        return _counted(rows[0].owner, call.base, out) if known else out
    return _with_rows(rows, dims, out)


def _with_rows(rows: list[_Marked], dims: Dims, out: Tensor) -> Any:
    """``out``, which has ``rows`` along its dimensions ``dims``, marked."""
    if not dims:
        return out
    if dims != {0}:
        turned = OwnTurned.of(out, rows[0].owner)
        turned.dims = dims
        return turned
    for value in rows:
        if isinstance(value, OwnRows | OwnEdges | OwnTurned) and out.shape[0] == value.owner.owned:
            # Not `type(value)`: rows of a device may have a class of the device, and the result may be on the host.
            whole = OwnEdges if isinstance(value, OwnEdges) or value.owner.rows is None else OwnRows
            return whole.of(out, value.owner)
    return OwnSome.of(out, rows[0].owner)


def _counted(owner: Owner, counted: str, out: Tensor) -> Any:
    """``out``, which depends on several rows of this worker, marked with the function that ``counted`` them."""
    marked = OwnMixed.of(out, owner) if out.dim() else OwnNumber.of(out, owner)
    marked.counted = counted
    return marked


def _is_mixing(call: Call, types: Sequence[type]) -> bool:
    """Whether a function outside of a pass sums or meets rows; what other classes of tensors do is theirs."""
    if not set(types) <= KINDS or owner_of((call.args, call.kwargs)).passing.serves:
        return False
    with torch._C.DisableTorchFunctionSubclass():
        return _meets_several(call) or (_targets(call) is None and mixes_rows(call))


def _targets(call: Call) -> Owner | None:
    """The owner of the nodes at which values of edges are added up, where ``call`` does so; all their edges are here.

    A worker holds every edge into its nodes, so that these sums are complete.
    """
    if call.base not in SPREADING or len(call.args) < 4 or not isinstance(call.args[0], Tensor):
        return None
    given = (call.args[2], call.args[3])
    targets = next((value.owner.targets for value in given if isinstance(value, OwnEdges | OwnEnds)), None)
    fits = targets is not None and call.args[1] == 0 and call.args[0].shape[:1] == (targets.owned,)
    return targets if fits else None


def _meets_several(call: Call) -> bool:
    """Whether rows meet what was counted or summed over several of them."""
    several = any(isinstance(value, OwnNumber | OwnMixed) for value in call.tensors)
    return several and bool(call.marked) and call.name not in LOOKING


def _of_several(call: Call, out: Any) -> Any:
    """What a function that mixes rows gives, if it is one number or counts whole numbers; else a refusal."""
    owner = owner_of((call.args, call.kwargs))
    if isinstance(out, Tensor) and not out.dim():
        return _counted(owner, call.base, out)
    # The places among the own rows, instead of the rows themselves, which are numbers.
    numbers = (call.args, call.kwargs) if call.name in ("argsort", "argmax", "argmin") else out
    floating = any(isinstance(value, Tensor) and value.is_floating_point() for value in leaves(numbers))
    if floating or _meets_several(call) or call.base == "one_hot" or is_pointwise(call.base):
        several = next((value for value in call.tensors if isinstance(value, OwnNumber | OwnMixed)), None)
        raise mixed_rows(call, owner, "" if several is None else several.counted)
    return changed(out, lambda leaf: _counted(owner, call.base, leaf) if isinstance(leaf, Tensor) else leaf)


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
    owner = owner_of((args, kwargs))
    given = [value for value in leaves((args, kwargs)) if isinstance(value, Tensor) and value.dim()]
    if owner.whole != owner.owned and any(value.shape[0] == owner.whole for value in given):
        raise whole_tensor(owner) from error


def _refuse_foreign(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse rows that are picked by numbers of the whole graph, and the other way round."""
    with torch._C.DisableTorchFunctionSubclass():
        picked = picked_rows(name, args, kwargs)
    if picked is None:
        return
    target, index = picked
    owner = owner_of((args, kwargs))
    if owner.passing.inside or not isinstance(target, Tensor):
        return
    if isinstance(target, OwnRows | OwnEdges):
        _refuse_index(index, target)
    elif isinstance(index, OwnIndex) and not isinstance(target, OwnIndex):
        whole = owner.whole
        if target.shape[0] == whole != owner.owned:
            raise indexed_whole(owner)


def _refuse_other_part(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse rows of two parts of which a worker has other nodes."""
    owners = [value.owner for value in leaves((args, kwargs)) if isinstance(value, OwnRows | OwnIndex)]
    if any(owners[0].apart(owner) for owner in owners[1:]):
        raise other_part("an index, a mask or rows")


def _refuse_index(index: Any, rows: OwnRows | OwnEdges) -> None:
    """Refuse ``index`` unless it names rows of this worker."""
    owned = rows.owner.owned
    if index is None or index is Ellipsis or isinstance(index, OwnIndex):
        return
    if isinstance(index, OwnEnds):
        refuse_shares()
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
    raise foreign_edges(owned, what) if isinstance(rows, OwnEdges) else foreign_nodes(rows.owner, what)


def _whole_numbers(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.int64
