"""Which calls of torch sum, normalise, reorder or multiply over the rows of a tensor, and need those of all workers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from torch import Tensor

from halowire.pyg.products import PRODUCTS, contracts, sums_letters
from halowire.pyg.row_call import Call
from halowire.pyg.row_picks import argument
from halowire.pyg.row_wise import POINTWISE_LOSSES, is_pointwise

UNSET = object()
EACH, LAST = None, -1
REDUCING: dict[str, tuple[int, Any]] = {
    **dict.fromkeys(("sum", "nansum", "mean", "nanmean", "std", "var", "std_mean", "var_mean", "prod", "amax", "amin",
                     "aminmax", "max", "min", "median", "nanmedian", "logsumexp", "count_nonzero", "all", "any"),
                    (1, EACH)),
    **dict.fromkeys(("norm", "linalg_norm", "linalg_vector_norm", "quantile", "nanquantile"), (2, EACH)),
    **dict.fromkeys(("mode", "sort", "argsort", "argmax", "argmin", "cumsum", "cumprod", "logcumsumexp", "cummax",
                     "cummin"), (1, LAST)),
    **dict.fromkeys(("topk", "kthvalue", "diff"), (2, LAST)),
    **dict.fromkeys(("softmax", "log_softmax", "softmin", "_softmax", "_log_softmax", "glu"), (1, LAST)),
    "gumbel_softmax": (4, LAST), "normalize": (2, 1), "cosine_similarity": (2, 1), "trapezoid": (9, LAST),
    "trapz": (9, LAST), "roll": (2, EACH), "flip": (1, EACH),
}  # fmt: skip
"""Functions along dimensions: where they take these, and what they take without them; `EACH`: all dimensions."""
WHOLE = {"corrcoef", "cov", "svd", "svd_lowrank", "pca_lowrank", "linalg_svd", "linalg_svdvals", "linalg_qr", "qr",
         "pinverse", "linalg_pinv", "linalg_lstsq", "linalg_matrix_norm", "linalg_matrix_rank", "matrix_rank", "pdist",
         "nuclear_norm", "logdet", "flipud"}  # fmt: skip
"""Functions of a whole matrix."""
COUNTING = {"bincount", "histc", "histogram", "unique", "unique_consecutive", "_unique2"}
"""Functions that count the rows, or list their values."""
PAIRING = {"cdist", "outer", "ger", "inner", "kron", "linear", "tensordot"}
"""Functions that meet every row of the one tensor with every row of the other."""
SPREADING = {"index_add", "index_reduce", "scatter", "scatter_add", "scatter_reduce"}
"""Functions of ``(tensor, dim, index, source)`` that add up rows of the source."""
LOSSES = {"cross_entropy", "nll_loss", "gaussian_nll_loss", "multilabel_soft_margin_loss", "dot", "vdot",
          *POINTWISE_LOSSES}  # fmt: skip
"""Functions that sum over all rows where their result is one number."""
SEQUENCES = {"gru": 8, "lstm": 8, "rnn_tanh": 8, "rnn_relu": 8}
"""Recurrent layers over sequences, and where they are told that the batch comes first."""
ATTENTION = {"scaled_dot_product_attention", "multi_head_attention_forward"}
"""Functions in which the entries of a sequence attend to each other."""


def mixes_rows(call: Call) -> bool:
    """Whether the result of ``call`` depends on several of this worker's rows at once, or on their order."""
    apart = len(call.marked) > 1 and len(call.from_start()) > 1 and len(call.from_end()) > 1
    if apart and call.base not in REDUCING and call.base not in PRODUCTS:
        return True  # rows, and rows that were turned: every pair of them meets
    if call.base in WHOLE and call.along(call.first) and call.first.dim() == 2:
        return True
    if is_pointwise(call.base) and call.base not in REDUCING:
        return meets_others(call)
    if call.base in ("max", "min") and len(call.tensors) > 1:
        return meets_others(call)
    check = CHECK_OF.get(call.base)
    return check is not None and check(call)


def meets_others(call: Call) -> bool:
    """Whether entries of several rows meet where tensors are broadcast to one shape.

    So they do in ``[n, 1] - [n]``, which is ``[n, n]``, and where one of the rows meets all others.
    """
    if len(call.marked) < 2:
        return False
    if len(call.from_end()) > 1:
        return True
    sizes = {value.shape[dim] for value in call.marked for dim in call.along(value)}
    return 1 in sizes and len(sizes) > 1


def dims_of(call: Call) -> tuple[int, ...] | None:
    """The dimensions of the first argument along which a function of `REDUCING` runs; None for all of them."""
    place, default = REDUCING[call.base]
    if call.name in ("std", "var", "std_mean", "var_mean") and isinstance(call.given(1, "dim"), bool):
        return None
    dims = call.kwargs.get("axis", call.kwargs.get("dims", call.given(place, "dim", UNSET)))
    if call.base == "flip":
        dims = call.listed(1, "dims")
    dims = default if dims is UNSET or dims is None else dims
    if dims is EACH:
        return None
    listed = tuple(dims) if isinstance(dims, tuple | list) else (dims,)
    found = tuple(dim % call.first.dim() for dim in listed if isinstance(dim, int))
    return found or None


def _reduces(call: Call) -> bool:
    """Whether a function along dimensions runs along the rows."""
    first = call.first
    if call.base == "cosine_similarity":
        return meets_others(call) or _ends_in_rows(call, call.given(2, "dim", 1))
    if not call.along(first):
        return False
    dims = dims_of(call)
    return dims is None or bool(call.along(first).intersection(dims))


def _ends_in_rows(call: Call, dim: int) -> bool:
    """Whether ``dim`` of the tensors, broadcast to one shape, has rows."""
    ndim = max(value.dim() for value in call.tensors)
    return any(dim % ndim == ndim + place for places in call.from_end() for place in places)


def _meets(call: Call) -> bool:
    """Whether rows meet rows, or are summed over as the last dimension."""
    pair = [call.given(place, word) for place, word in enumerate(("input", "other"))]
    if call.base == "cdist":
        places = [{dim - value.dim() for dim in call.along(value)} for value in pair if isinstance(value, Tensor)]
        return any(-2 in rows for rows in places) and all(places)
    summed = call.given(2, "dims", 1) if call.base == "tensordot" else call.base == "linear"
    if summed and (not isinstance(summed, int) or any(-dim <= summed for rows in call.from_end() for dim in rows)):
        return True
    return all(call.along(value) for value in pair)


def _spreads(call: Call) -> bool:
    """Whether rows are added up by an index, into a tensor that does not have one row for each of them."""
    source = call.given(3, "source" if call.base.startswith("index") else "src")
    first_dim = call.given(1, "dim") in ((0, -source.dim()) if isinstance(source, Tensor) else ())
    return first_dim and 0 in call.along(source) and not call.along(call.first)


def _normalises(call: Call) -> bool:
    """Whether a batch norm of a head, outside of the model, takes the statistics of the rows."""
    rows = call.along(call.first)
    return bool(rows) and (rows != {0} or bool(call.given(5, "training", False)))


def _norms_instances(call: Call) -> bool:
    """Whether an instance norm runs over the rows, averages what it finds in each, or has a weight for each."""
    rows = call.along(call.first)
    averages = call.given(1, "running_mean") is not None and bool(call.given(5, "use_input_stats", True))
    weights = 1 in rows and call.given(3, "weight") is not None
    return bool(rows) and (averages or weights or not rows <= {0, 1})


def _norms_last(call: Call) -> bool:
    """Whether a norm over the last dimensions runs over the rows."""
    shape = call.given(1, "normalized_shape", ())
    width = len(shape) if isinstance(shape, tuple | list) else 1
    return any(dim >= call.first.dim() - width for dim in call.along(call.first))


def _not_first(call: Call) -> bool:
    """Whether rows are not the batch of a function that has its batch first."""
    return any(rows != {0} for rows in call.from_start())


def _in_sequence(call: Call) -> bool:
    """Whether rows follow one another in the sequences of a recurrent layer."""
    first = bool(call.given(SEQUENCES[call.base], "batch_first", False))
    return bool(call.along(call.first)) and call.along(call.first) != {0 if first else 1}


def _attends(call: Call) -> bool:
    """Whether rows attend to each other."""
    if call.base == "multi_head_attention_forward":
        return any(rows != {1} for rows in call.from_start())
    return any(dim >= -2 for rows in call.from_end() for dim in rows)


def _pads(call: Call) -> bool:
    """Whether entries are added before or behind the rows."""
    padded = len(call.given(1, "pad", ())) // 2
    return any(dim >= call.first.dim() - padded for dim in call.along(call.first))


def _repeats(call: Call) -> bool:
    """Whether all rows are repeated as often as there are rows, as for all pairs of them."""
    if call.base == "repeat_interleave":
        counts: tuple[Any, ...] = (call.given(1, "repeats"),)
    else:
        counts = call.listed(1, "repeats" if call.base == "repeat" else "dims")
    return bool(call.along(call.first)) and any(isinstance(some, int) and some == call.count > 1 for some in counts)


def _rows_alone(call: Call) -> bool:
    """Whether a tensor has rows along its only dimension, of which numbers are drawn or a matrix made."""
    return bool(call.along(call.first)) and (call.first.dim() == 1 or call.first.dim() - 1 in call.along(call.first))


def _counts_classes(call: Call) -> bool:
    """Whether the number of classes is that of the labels of this worker."""
    return bool(call.along(call.first)) and argument(call.args, call.kwargs, 1, "num_classes", -1) == -1


CHECKS: tuple[tuple[Collection[str], Callable[[Call], bool]], ...] = (
    (REDUCING, _reduces),
    (PRODUCTS, contracts),
    (PAIRING, _meets),
    (SPREADING, _spreads),
    (LOSSES, lambda call: len(call.from_start()) > 1),
    ({"batch_norm", "group_norm"}, _normalises),
    ({"instance_norm"}, _norms_instances),
    ({"layer_norm", "rms_norm"}, _norms_last),
    ({"einsum"}, sums_letters),
    (SEQUENCES, _in_sequence),
    (ATTENTION, _attends),
    ({"gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell"}, _not_first),
    ({"pad", "constant_pad_nd"}, _pads),
    ({"repeat", "tile", "repeat_interleave"}, _repeats),
    ({"multinomial", "diag", "diagonal", "trace", "triu", "tril"}, _rows_alone),
    ({"one_hot"}, _counts_classes),
    (COUNTING, lambda call: bool(call.along(call.first))),
    ({"unfold"}, lambda call: call.given(1, "dimension") % call.first.dim() in call.along(call.first)),
    ({"rot90", "combinations", "cartesian_prod", "meshgrid"}, lambda call: bool(call.marked)),
)
"""Names of functions, and what tells whether their calls mix rows."""
CHECK_OF = {name: check for names, check in CHECKS for name in names}
