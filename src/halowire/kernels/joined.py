"""Sparse matrices joined: side by side, or one below the other."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from halowire.kernels.csr import Csr


def side_by_side(left: Csr, right: Csr) -> Csr:
    """The matrix ``[left, right]``, ``[r, m + k]`` for ``left`` ``[r, m]`` and ``right`` ``[r, k]``."""
    rows = torch.cat([left.row_index(), right.row_index()])
    columns = torch.cat([left.indices.long(), right.indices.long() + left.num_cols])
    weight = None
    if left.weight is not None or right.weight is not None:
        weight = torch.cat([weights_of(left), weights_of(right)])
    return Csr.from_edges(rows, columns, left.num_rows, left.num_cols + right.num_cols, weight)


def stacked(blocks: Sequence[Csr], num_cols: int) -> Csr:
    """The rows of all ``blocks``, each of ``num_cols`` columns, one block below the other."""
    lengths = torch.cat([torch.zeros(1, dtype=torch.int64), *(block.indptr.diff() for block in blocks)])
    if not blocks:
        return Csr(lengths, torch.zeros(0, dtype=torch.int32), None, num_cols)
    weight = None
    if any(block.weight is not None for block in blocks):
        weight = torch.cat([weights_of(block) for block in blocks])
    return Csr(lengths.cumsum(0), torch.cat([block.indices for block in blocks]), weight, num_cols)


def weights_of(matrix: Csr) -> Tensor:
    """The weight of every entry, float32 ``[nnz]``: ones where the matrix has none."""
    return torch.ones(matrix.nnz, device=matrix.indices.device) if matrix.weight is None else matrix.weight
