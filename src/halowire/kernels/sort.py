"""Sorting edges into compressed rows, and transposing compressed rows, by counting."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels.dispatch import call, indexed, matrix_of, native_for

INT32_LIMIT = 2**31

Arrays = tuple[Tensor, Tensor, Tensor | None]


def index_type(limit: int) -> torch.dtype:
    """The narrowest of int32 and int64 that holds ``0 .. limit - 1``."""
    return torch.int32 if limit < INT32_LIMIT else torch.int64


def sort_edges(rows: Tensor, cols: Tensor, num_rows: int, num_cols: int, weight: Tensor | None) -> Arrays:
    """``(indptr, indices, weight)`` of the edges ordered by row, then column; equal edges keep the given order.

    Args:
        rows, cols: integer ``[nnz]``, checked to lie in their ranges.
        weight: float32 ``[nnz]`` or None.
    """
    native = native_for(rows, cols, weight)
    if native is None:
        return sort_edges_twin(rows, cols, num_rows, num_cols, weight)
    narrow = index_type(max(num_rows, num_cols))
    rows, cols = rows.to(narrow).contiguous(), cols.to(narrow).contiguous()
    weight = None if weight is None else weight.contiguous()
    made = new_arrays(rows.numel(), num_rows, num_cols, weight)
    call(
        native.sort_edges, *indexed(rows, cols), weight, rows.numel(), num_rows, num_cols, *indexed(made[0], made[1]),
        made[2],
    )  # fmt: skip
    return made


def transpose(indptr: Tensor, indices: Tensor, weight: Tensor | None, num_cols: int) -> Arrays:
    """``(indptr, indices, weight)`` of the transposed matrix."""
    num_rows = indptr.numel() - 1
    native = native_for(indptr, indices, weight)
    if native is None:
        rows = torch.repeat_interleave(torch.arange(num_rows, device=indptr.device), indptr.diff())
        return sort_edges_twin(indices, rows, num_cols, num_rows, weight)
    indptr, indices = indptr.contiguous(), indices.contiguous()
    weight = None if weight is None else weight.contiguous()
    made = new_arrays(indices.numel(), num_cols, num_rows, weight)
    call(
        native.transpose, *matrix_of(indptr, indices, num_cols), weight, num_rows, *indexed(made[0], made[1]), made[2]
    )  # fmt: skip
    return made


def new_arrays(count: int, num_rows: int, num_cols: int, weight: Tensor | None) -> Arrays:
    """Uninitialised arrays of a CSR matrix."""
    indptr = torch.empty(num_rows + 1, dtype=torch.int64)
    indices = torch.empty(count, dtype=index_type(num_cols))
    return indptr, indices, None if weight is None else torch.empty(count)


def sort_edges_twin(rows: Tensor, cols: Tensor, num_rows: int, num_cols: int, weight: Tensor | None) -> Arrays:
    """:func:`sort_edges` in torch: two stable sorts, the less important key first."""
    order = torch.sort(cols, stable=True).indices
    order = order[torch.sort(rows[order], stable=True).indices]
    indptr = torch.zeros(num_rows + 1, dtype=torch.int64, device=rows.device)
    torch.cumsum(torch.bincount(rows.long(), minlength=num_rows), 0, out=indptr[1:])
    return indptr, cols[order].to(index_type(num_cols)), None if weight is None else weight[order]
