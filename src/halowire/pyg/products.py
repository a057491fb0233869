"""Products of tensors with rows of this worker: whether they sum over rows, and where the rows of the result are."""

from __future__ import annotations

from torch import Tensor

from halowire.pyg.row_call import Call
from halowire.pyg.view_dims import Dims

PRODUCTS = {"matmul": 0, "mm": 0, "bmm": 0, "mv": 0, "__rmatmul__": 0, "addmm": 1, "addmv": 1, "baddbmm": 1}
"""Products of matrices, and which argument the first of them is; ``__rmatmul__`` is turned round."""


def contracts(call: Call) -> bool:
    """Whether a product sums over the rows of one of its factors, or meets rows with rows."""
    left, right = _places(call)
    return left is None or right is None or bool(left and right and left != right)


def product_dims(call: Call, out: Tensor) -> Dims:
    """The dimensions of the product ``out`` with rows."""
    left, right = _places(call)
    found = {place + out.dim() for place in (*(left or ()), *(right or ()))}
    if call.base.startswith(("add", "badd")):
        found.update(dim - call.first.dim() + out.dim() for dim in call.along(call.first))
    return frozenset(found)


def _places(call: Call) -> tuple[Dims | None, Dims | None]:
    """Where the rows of the two factors are in the product, from its end; None where it sums over them."""
    left, right = _factors(call)
    rows = {dim - left.dim() for dim in call.along(left)}
    first = {_kept(dim, -1, right.dim()) for dim in rows}
    columns = {dim - right.dim() for dim in call.along(right)}
    second = {_kept(dim, -2 if right.dim() > 1 else -1, left.dim()) for dim in columns}
    return _all(first), _all(second)


def _kept(dim: int, summed: int, other: int) -> int | None:
    """Where dimension ``dim`` of a factor is in the product; a vector as the ``other`` factor takes one away."""
    if dim == summed:
        return None
    return dim + 1 if other == 1 and dim < summed else dim


def _all(found: set[int | None]) -> Dims | None:
    return None if None in found else frozenset(dim for dim in found if dim is not None)


def _factors(call: Call) -> tuple[Tensor, Tensor]:
    """The two factors of a product."""
    if call.base == "__rmatmul__":
        return call.args[1], call.args[0]
    start = PRODUCTS[call.base]
    left = call.given(start, {"addmm": "mat1", "addmv": "mat", "baddbmm": "batch1"}.get(call.base, "input"))
    words = {"mm": "mat2", "addmm": "mat2", "bmm": "mat2", "mv": "vec", "addmv": "vec", "baddbmm": "batch2"}
    return left, call.given(start + 1, words.get(call.base, "other"))


def sums_letters(call: Call) -> bool:
    """Whether an einsum sums over rows, or meets rows with rows."""
    letters = _letters(call)
    return letters is not None and (len(letters[0]) > 1 or not letters[0] <= set(letters[1]))


def einsum_dims(call: Call) -> Dims | None:
    """The dimensions of the result of an einsum with rows; None where the letters do not tell."""
    letters = _letters(call)
    return None if letters is None else frozenset(letters[1].index(letter) for letter in letters[0])


def _letters(call: Call) -> tuple[set[str], str] | None:
    """The letters of dimensions with rows, and those of the result."""
    if not isinstance(call.args[0], str) or "..." in call.args[0]:
        return None
    taken, _, given = call.args[0].replace(" ", "").partition("->")
    operands = call.args[1] if isinstance(call.args[1], tuple | list) else call.args[1:]
    terms = zip(taken.split(","), operands, strict=True)
    return {term[dim] for term, value in terms for dim in call.along(value)}, given
