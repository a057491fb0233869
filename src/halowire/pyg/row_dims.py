"""Along which dimensions the result of a function of torch has rows of this worker, each made of one of them."""

from __future__ import annotations

from collections.abc import Callable, Collection

from torch import Tensor

from halowire.pyg.products import PRODUCTS, einsum_dims, product_dims
from halowire.pyg.row_call import Call
from halowire.pyg.row_mixing import REDUCING, SEQUENCES, dims_of
from halowire.pyg.row_wise import BATCHED, LIKE, is_pointwise
from halowire.pyg.view_dims import Dims, picked, reshaped, squeezed, turned, without

TURNING = {"t", "T", "mT", "H", "mH", "transpose", "swapaxes", "swapdims", "movedim", "moveaxis", "permute", "adjoint",
           "unsqueeze", "numpy_T"}  # fmt: skip
"""Functions that bring dimensions into another order, or add some."""
SHAPING = {"view", "reshape", "flatten", "unflatten", "ravel", "view_as", "reshape_as"}
"""Functions that give the same entries another shape."""
JOINING = {"cat", "concat", "concatenate", "vstack", "hstack", "row_stack", "column_stack"}


def dims_after(call: Call, out: Tensor) -> Dims | None:
    """The dimensions of the result ``out`` of ``call`` with rows; None if each entry may depend on several rows."""
    found = _dims(call, out)
    return None if found is None or (not found and call.marked) or any(dim >= out.dim() for dim in found) else found


def _dims(call: Call, out: Tensor) -> Dims | None:
    rule = RULE_OF.get(call.base)
    if rule is not None:
        return rule(call, out)
    return _broadcast(call, out) if is_pointwise(call.base) else None


def _broadcast(call: Call, out: Tensor) -> Dims:
    """Dimensions are counted from the last."""
    return frozenset(place + out.dim() for places in call.from_end() for place in places if place + out.dim() >= 0)


def _alike(call: Call, out: Tensor) -> Dims:
    """Dimensions are those of the arguments."""
    return frozenset().union(*call.from_start())


def _reduced(call: Call, out: Tensor) -> Dims:
    """The dimensions that a function ran along are gone, unless it keeps them."""
    if call.base == "cosine_similarity":
        ndim = max(value.dim() for value in call.tensors)
        places = frozenset(place + ndim for found in call.from_end() for place in found)
        return without(ndim, (call.given(2, "dim", 1),), places)
    if len(call.tensors) > 1 and call.base in ("max", "min"):
        return _broadcast(call, out)
    first = call.first
    if call.base in LIKE or out.dim() == first.dim():
        return call.along(first)
    return without(first.dim(), dims_of(call) or range(first.dim()), call.along(first))


def _reshaped(call: Call, out: Tensor) -> Dims:
    if len(call.tensors) > 1 and not call.along(call.first):
        return frozenset()  # zeros.view_as(rows)
    return reshaped(call.first.shape, out.shape, call.along(call.first))


def _squeezed(call: Call, out: Tensor) -> Dims:
    return squeezed(call.first.shape, call.given(1, "dim"), call.along(call.first))


def _turned(call: Call, out: Tensor) -> Dims:
    return turned(call.func, call.args, call.kwargs, call.along(call.first))


def _picked(call: Call, out: Tensor) -> Dims | None:
    found = picked(call.args[0], call.args[1], call.along)
    pairs = len(found) > 1 and len(call.marked) > 1  # as in rows[:, labels]
    return None if pairs else found


def _joined(call: Call, out: Tensor) -> Dims | None:
    """Rows that are joined lie along the same dimensions as before, with those of other tensors or without."""
    if call.base in ("vstack", "row_stack") and call.marked[0].dim() == 1:
        return frozenset({1})
    found = call.from_start()
    return next(iter(found)) if len(found) == 1 else None


def _stacked(call: Call, out: Tensor) -> Dims | None:
    """A dimension is put in between."""
    dim = call.given(1, "dim", 0) % out.dim()
    found = call.from_start()
    return frozenset(place + (place >= dim) for place in next(iter(found))) if len(found) == 1 else None


def _apart(call: Call, out: Tensor) -> Dims:
    """A dimension is taken out, such as by ``select``."""
    dim = 0 if call.base == "__iter__" else call.given(1, "dim", 0)
    return without(call.first.dim(), (dim,), call.along(call.first))


def _masked(call: Call, out: Tensor) -> Dims:
    return frozenset({0})


def _last_gone(call: Call, out: Tensor) -> Dims:
    return frozenset(place + 1 + out.dim() for places in call.from_end() for place in places if place < -1)


def _paired(call: Call, out: Tensor) -> Dims:
    """``outer``, ``inner`` and ``cdist`` of rows and a tensor without them."""
    first = bool(call.along(call.args[0]))
    if call.base in ("outer", "ger"):
        return frozenset({0 if first else 1})
    return _broadcast(call, out) if first else frozenset({out.dim() - 1})


def _batch(call: Call, out: Tensor) -> Dims | None:
    """Rows as the batch of a function that has its batch first."""
    rows = call.from_start()
    fits = rows == {frozenset({0})} and call.marked[0].dim() >= BATCHED[call.base]
    return frozenset({0}) if fits else None


def _sequences(call: Call, out: Tensor) -> Dims:
    """The batch of a recurrent layer: in its outputs where it is in the inputs, in its states the second dimension."""
    states = out.shape[:1] != call.first.shape[:1]
    return frozenset({1}) if states else call.along(call.first)


def _heads(call: Call, out: Tensor) -> Dims:
    """The batch comes second in what attention gives, and first in its weights."""
    weights = out.shape[:1] != call.first.shape[:1]
    return frozenset({0 if weights else 1})


Rule = Callable[[Call, Tensor], "Dims | None"]
RULES: tuple[tuple[Collection[str], Rule], ...] = (
    (REDUCING, _reduced),
    (SHAPING, _reshaped),
    ({"squeeze"}, _squeezed),
    (TURNING, _turned),
    ({"__getitem__"}, _picked),
    (JOINING, _joined),
    ({"stack"}, _stacked),
    ({"unbind", "__iter__", "select"}, _apart),
    ({"masked_select"}, _masked),
    (PRODUCTS, product_dims),
    ({"einsum"}, lambda call, out: einsum_dims(call)),
    ({"pairwise_distance"}, _last_gone),
    ({"outer", "ger", "inner", "cdist"}, _paired),
    ({"expand", "expand_as", "broadcast_to", "repeat", "tile", "scaled_dot_product_attention"}, _broadcast),
    (SEQUENCES, _sequences),
    ({"multi_head_attention_forward"}, _heads),
    (LIKE, _alike),
    (BATCHED, _batch),
)
"""Names of functions, and what tells where the rows of their results are."""
RULE_OF = {name: rule for names, rule in reversed(RULES) for name in names}  # the first of two rules counts
