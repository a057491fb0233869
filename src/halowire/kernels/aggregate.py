"""CSR aggregation: every destination row sums its weighted source rows."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from halowire.kernels.buffers import rows_for
from halowire.kernels.device_csr import device_product
from halowire.kernels.dispatch import (
    adjacent,
    check_matrix,
    check_rows,
    matrix_of,
    native_for,
    run,
    strided,
    threads_for,
)


def aggregate(
    indptr: Tensor,
    indices: Tensor,
    weight: Tensor | None,
    x: Tensor,
    out: Tensor | None = None,
    accumulate: bool = False,
) -> Tensor:
    """``out[i] (+)= sum over e in row i of weight[e] * x[indices[e]]``; deterministic, whatever the number of threads.

    Args:
        indptr: int64 ``[rows + 1]``, ascending.
        indices: int32 or int64 ``[nnz]``, each a row of ``x`` (not checked here; ``Csr`` checks when it is built).
        weight: float32 ``[nnz]``, or None for ones.
        x: float32 ``[m, k]``.
        out: float32 ``[rows, k]`` with adjacent columns; a buffer from the pool if not given.
        accumulate: add to ``out`` instead of overwriting it.
    """
    rows = count_matrix_rows(indptr, indices, weight)
    check_rows("x", x)
    cols = x.shape[1]
    out = rows_for(rows, cols, x.device, out, accumulate)
    native = native_for(indptr, indices, weight, x, out)
    if native is None or not adjacent(out):
        return aggregate_twin(indptr, indices, weight, x, out, accumulate)
    run(
        native.aggregate, *matrix_of(indptr, indices, x.shape[0]), weight, *strided(x), *strided(out), rows, cols,
        accumulate, threads_for((indices.numel() + rows) * cols),
    )  # fmt: skip
    return out


def count_matrix_rows(indptr: Tensor, indices: Tensor, weight: Tensor | None) -> int:
    """Number of rows of a CSR matrix, whose arrays are checked on the CPU.

    On a device a look at the row pointers would make the host wait in every call, and torch checks the types itself.
    """
    return check_matrix(indptr, indices, weight) if indptr.device.type == "cpu" else indptr.numel() - 1


def aggregate_twin(
    indptr: Tensor, indices: Tensor, weight: Tensor | None, x: Tensor, out: Tensor, accumulate: bool
) -> Tensor:
    """:func:`aggregate` in torch, by its CSR product; absent weights are ones."""
    if x.device.type != "cpu":
        return device_product(indptr, indices, weight, x, out, accumulate)
    values = x.new_ones(indices.numel()) if weight is None else weight
    # The index types of a CSR tensor must agree; int64 because the number of entries may need it.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        matrix = torch.sparse_csr_tensor(
            indptr, indices.long(), values, (indptr.numel() - 1, x.shape[0]), check_invariants=False
        )
    product = matrix @ x
    return out.add_(product) if accumulate else out.copy_(product)
