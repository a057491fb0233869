"""Sums of float32 rows on a device, by torch's own product with a CSR matrix, whose int32 form is kept.

On NVIDIA's GPUs this is cuSPARSE, on AMD's rocSPARSE. A product with a matrix that is not transposed repeats exactly.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

INT32_LIMIT = 2**31
FORMS = 2
"""Forms kept for one array of row pointers: a matrix and its transpose may share it, with different weights."""


class Form(NamedTuple):
    """A matrix as torch takes it, and the arrays that it was made of."""

    indices: Tensor
    weight: Tensor | None
    columns: int
    matrix: Tensor


@cache
def kept_forms() -> Any:
    """The forms made so far, by their row pointers, which they do not hold."""
    return WeakTensorKeyDictionary()


def device_product(
    indptr: Tensor, indices: Tensor, weight: Tensor | None, x: Tensor, out: Tensor, accumulate: bool
) -> Tensor:
    """``out (+)= matrix @ x``; absent weights are ones. The sum is added in the product's own pass."""
    matrix = form_of(indptr, indices, weight, x.shape[0])
    torch.addmm(out, matrix, x, beta=1.0 if accumulate else 0.0, out=out)
    return out


def form_of(indptr: Tensor, indices: Tensor, weight: Tensor | None, columns: int) -> Tensor:
    """The CSR tensor of these arrays, made once while ``indptr`` lives; it shares int32 indices and weights."""
    kept: list[Form] = kept_forms().setdefault(indptr, [])
    for form in kept:
        if form.indices is indices and form.weight is weight and form.columns == columns:
            return form.matrix
    form = Form(indices, weight, columns, make_form(indptr, indices, weight, columns))
    kept.insert(0, form)
    del kept[FORMS:]
    return form.matrix


def make_form(indptr: Tensor, indices: Tensor, weight: Tensor | None, columns: int) -> Tensor:
    """The CSR tensor of these arrays, with int32 indices where they suffice."""
    kind = torch.int32 if max(indices.numel(), columns) < INT32_LIMIT else torch.int64
    values = torch.ones(indices.numel(), device=indices.device) if weight is None else weight
    shape = (indptr.numel() - 1, columns)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        return torch.sparse_csr_tensor(indptr.to(kind), indices.to(kind), values, shape, check_invariants=False)
