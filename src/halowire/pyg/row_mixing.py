"""Which functions of torch sum, normalise or multiply over the rows of a tensor, and so need those of all workers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from torch import Tensor

from halowire.pyg.leaves import leaves
from halowire.pyg.row_picks import argument

Along = Callable[[Any], int | None]
"""Gives the dimension along which a tensor has this worker's rows, or None."""
UNSET = object()
EACH, LAST = None, -1
REDUCING: dict[str, tuple[int, Any]] = {
    **dict.fromkeys(("sum", "nansum", "mean", "nanmean", "std", "var", "std_mean", "var_mean", "prod", "amax", "amin",
                     "aminmax", "max", "min", "median", "nanmedian", "logsumexp", "count_nonzero", "all", "any"),
                    (1, EACH)),
    **dict.fromkeys(("norm", "linalg_norm", "linalg_vector_norm", "quantile", "nanquantile"), (2, EACH)),
    **dict.fromkeys(("mode", "sort", "argsort", "argmax", "argmin", "cumsum", "cumprod", "logcumsumexp", "cummax",
                     "cummin", "diff"), (1, LAST)),
    **dict.fromkeys(("topk", "kthvalue"), (2, LAST)),
    **dict.fromkeys(("softmax", "log_softmax", "softmin", "_softmax", "_log_softmax"), (1, LAST)),
    "gumbel_softmax": (4, LAST), "normalize": (2, 1),
}  # fmt: skip
"""Functions along dimensions: where they take these, and what they take without them; `EACH`: all dimensions."""
WHOLE = {"corrcoef", "cov", "svd", "svd_lowrank", "pca_lowrank", "linalg_svd", "linalg_svdvals", "linalg_qr", "qr",
         "pinverse", "linalg_pinv", "linalg_lstsq", "linalg_matrix_norm", "linalg_matrix_rank", "matrix_rank", "pdist",
         "nuclear_norm", "logdet"}  # fmt: skip
"""Functions of a whole matrix."""
PRODUCTS = {"matmul": 0, "__matmul__": 0, "mm": 0, "mv": 0, "addmm": 1, "addmv": 1}
"""Products of matrices, and which argument the first of them is; ``__rmatmul__`` is turned round."""
PAIRING = {"cdist", "outer", "ger", "inner", "kron", "linear", "tensordot"}
"""Functions that meet every row of the one tensor with every row of the other."""
SPREADING = {"index_add", "index_reduce", "scatter", "scatter_add", "scatter_reduce"}
"""Functions of ``(tensor, dim, index, source)`` that add up rows of the source."""
LOSSES = {"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss",
          "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss", "gaussian_nll_loss",
          "margin_ranking_loss", "hinge_embedding_loss", "soft_margin_loss", "multilabel_soft_margin_loss", "dot",
          "vdot"}  # fmt: skip
"""Functions that sum over all rows where their result is one number."""


def mixes_rows(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], along: Along) -> bool:
    """Whether the result of the function ``name`` depends on several of this worker's rows at once."""
    name = name.removesuffix("_") if not name.endswith("__") else name
    given = {along(value) for value in leaves((args, kwargs)) if isinstance(value, Tensor)}
    if {0, 1} <= given:  # rows, and rows that were turned: every pair of them meets
        return True
    if name in LOSSES or (name in WHOLE and along(argument(args, kwargs, 0, "input")) is not None):
        return True
    return any(check(name, args, kwargs, along) for names, check in CHECKS if name in names)


def _reduces(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], along: Along) -> bool:
    """Whether a function along dimensions runs along the rows."""
    first = argument(args, kwargs, 0, "input")
    place, default = REDUCING[name]
    dims = kwargs.get("axis", argument(args, kwargs, place, "dim", UNSET))
    if along(first) is None or isinstance(dims, Tensor) or "other" in kwargs:  # torch.maximum by the name of max
        return False
    if name in ("std", "var", "std_mean", "var_mean") and isinstance(dims, bool):
        return True
    if dims is UNSET or dims is None:
        dims = default
    if dims is EACH:
        return True
    listed = dims if isinstance(dims, tuple | list) else (dims,)
    return any(dim % first.dim() == along(first) for dim in listed if isinstance(dim, int)) or not listed


def _factors(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The two factors of a product."""
    if name == "__rmatmul__":
        return args[1], args[0]
    start = PRODUCTS[name]
    left = argument(args, kwargs, start, "mat1" if start else "input")
    return left, argument(args, kwargs, start + 1, {"mm": "mat2", "addmm": "mat2"}.get(name, "other"))


def _contracts(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], along: Along) -> bool:
    """Whether a product sums over the rows of one of its factors."""
    left, right = _factors(name, args, kwargs)
    if along(right) == 0 and right.dim() <= 2:
        return True
    return along(left) is not None and along(left) == left.dim() - 1 <= 1


def _meets(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], along: Along) -> bool:
    """Whether rows meet rows."""
    return all(along(argument(args, kwargs, place, word)) is not None for place, word in enumerate(("input", "other")))


def _spreads(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], along: Along) -> bool:
    """Whether rows are added up by an index, into a tensor that does not have one row for each of them."""
    source = argument(args, kwargs, 3, "source" if name.startswith("index") else "src")
    first_dim = argument(args, kwargs, 1, "dim") in ((0, -source.dim()) if isinstance(source, Tensor) else ())
    return first_dim and along(source) == 0 and along(argument(args, kwargs, 0, "input")) is None


def _normalises(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], along: Along) -> bool:
    """Whether a batch norm of a head, outside of the model, takes the statistics of the rows."""
    return along(argument(args, kwargs, 0, "input")) == 0 and bool(argument(args, kwargs, 5, "training", False))


def _sums_letters(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], along: Along) -> bool:
    """Whether an einsum sums over rows, or meets rows with rows."""
    if not isinstance(args[0], str) or "..." in args[0]:
        return False
    taken, _, given = args[0].replace(" ", "").partition("->")
    operands = args[1] if isinstance(args[1], tuple | list) else args[1:]
    letters = {term[place] for term, value in zip(taken.split(","), operands, strict=True)
               if (place := along(value)) is not None}  # fmt: skip
    return len(letters) > 1 or not letters <= set(given)


CHECKS: tuple[tuple[Collection[str], Callable[[str, tuple[Any, ...], dict[str, Any], Along], bool]], ...] = (
    (REDUCING, _reduces),
    ({*PRODUCTS, "__rmatmul__"}, _contracts),
    (PAIRING, _meets),
    (SPREADING, _spreads),
    ({"batch_norm"}, _normalises),
    ({"einsum"}, _sums_letters),
)
"""Names of functions, and what tells whether their calls mix rows."""
