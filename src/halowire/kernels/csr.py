"""A sparse matrix in compressed rows: the one format that graphs, shards and sparse features share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from halowire.kernels.aggregate import aggregate
from halowire.kernels.errors import InputError

INT32_LIMIT = 2**31


@dataclass(frozen=True, eq=False)
class Csr:
    """Sparse ``[num_rows, num_cols]`` matrix; for adjacencies a row is a destination and its columns are the sources.

    Attributes:
        indptr: int64 ``[num_rows + 1]``, where each row starts in ``indices``.
        indices: int32 ``[nnz]`` (int64 if ``num_cols`` does not fit), ascending within a row.
        weight: float32 ``[nnz]``, or None where every entry is 1.
        num_cols: number of columns.
    """

    indptr: Tensor
    indices: Tensor
    weight: Tensor | None
    num_cols: int

    @staticmethod
    def from_edges(rows: Tensor, cols: Tensor, num_rows: int, num_cols: int, weight: Tensor | None = None) -> Csr:
        """Sort ``(rows[e], cols[e], weight[e])`` by row, then column; duplicates stay, in the order given."""
        for name, values, limit in (("row", rows, num_rows), ("column", cols, num_cols)):
            if values.numel() and (int(values.min()) < 0 or int(values.max()) >= limit):
                raise InputError(
                    f"{name} ids run from {int(values.min())} to {int(values.max())}, but must lie in 0..{limit - 1}"
                )
        order = torch.argsort(rows.long() * num_cols + cols.long(), stable=True)
        counts = torch.bincount(rows.long(), minlength=num_rows)
        indptr = torch.zeros(num_rows + 1, dtype=torch.int64)
        torch.cumsum(counts, 0, out=indptr[1:])
        dtype = torch.int32 if num_cols < INT32_LIMIT else torch.int64
        kept = None if weight is None else weight.float()[order]
        return Csr(indptr, cols[order].to(dtype), kept, num_cols)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.indptr.numel() - 1

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return self.indices.numel()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        weight = 0 if self.weight is None else self.weight.nbytes
        return self.indptr.nbytes + self.indices.nbytes + weight

    def row_index(self) -> Tensor:
        """Row of every entry, int64 ``[nnz]``."""
        return torch.repeat_interleave(torch.arange(self.num_rows), self.indptr.diff())

    def degree(self) -> Tensor:
        """Sum of the weights of every row (their count where there are none), float32 ``[num_rows]``."""
        if self.weight is None:
            return self.indptr.diff().float()
        return torch.zeros(self.num_rows).index_add_(0, self.row_index(), self.weight)

    def with_weight(self, weight: Tensor | None) -> Csr:
        """The same pattern with other weights."""
        return replace(self, weight=weight)

    def transpose(self) -> Csr:
        """The transposed matrix, ``[num_cols, num_rows]``."""
        return Csr.from_edges(self.indices, self.row_index(), self.num_cols, self.num_rows, self.weight)

    def select_rows(self, index: Tensor) -> Csr:
        """The rows ``index``, in that order."""
        counts = self.indptr.diff()[index]
        indptr = torch.zeros(index.numel() + 1, dtype=torch.int64)
        torch.cumsum(counts, 0, out=indptr[1:])
        entry = torch.arange(int(indptr[-1])) + torch.repeat_interleave(self.indptr[index] - indptr[:-1], counts)
        weight = None if self.weight is None else self.weight[entry]
        return Csr(indptr, self.indices[entry], weight, self.num_cols)

    def to_dense(self) -> Tensor:
        """The dense matrix; duplicates are added."""
        dense = torch.zeros(self.num_rows, self.num_cols)
        weight = torch.ones(self.nnz) if self.weight is None else self.weight
        return dense.index_put_((self.row_index(), self.indices.long()), weight, accumulate=True)

    def matmul(self, x: Tensor, out: Tensor | None = None, accumulate: bool = False) -> Tensor:
        """``out (+)= self @ x`` for ``x`` float32 ``[num_cols, k]``."""
        return aggregate(self.indptr, self.indices, self.weight, x, out=out, accumulate=accumulate)
