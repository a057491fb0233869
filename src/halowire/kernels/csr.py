"""A sparse matrix in compressed rows: the one format that graphs, shards and sparse features share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import sort
from halowire.kernels.aggregate import aggregate
from halowire.kernels.sending import sent_over


@dataclass(frozen=True, eq=False)
class Csr:
    """Sparse ``[num_rows, num_cols]`` matrix; for adjacencies a row is a destination and its columns are the sources.

    Attributes:
        indptr: int64 ``[num_rows + 1]``, where each row starts in ``indices``.
        indices: int32 ``[nnz]`` (int64 if ``num_cols`` does not fit), ascending within a row.
        weight: float32 ``[nnz]``, or None where every entry is 1.
        num_cols: number of columns.
        host_indptr: ``indptr`` on the host where the arrays are on a device and :meth:`to` brought them there: who
            needs a row's bounds then need not wait for the device.
    """

    indptr: Tensor
    indices: Tensor
    weight: Tensor | None
    num_cols: int
    host_indptr: Tensor | None = None

    @staticmethod
    def from_edges(rows: Tensor, cols: Tensor, num_rows: int, num_cols: int, weight: Tensor | None = None) -> Csr:
        """Sort ``(rows[e], cols[e], weight[e])`` by row, then column; duplicates stay, in the order given."""
        sizes = [rows.numel(), cols.numel()] + ([] if weight is None else [weight.numel()])
        if len(set(sizes)) > 1:
            raise InputError(f"rows, columns and weights of edges have lengths {sizes}, but must be equally many")
        for name, values, limit in (("row", rows, num_rows), ("column", cols, num_cols)):
            if values.numel() == 0:
                continue
            low, high = (int(bound) for bound in torch.aminmax(values))
            if low < 0 or high >= limit:
                raise InputError(f"{name} ids run from {low} to {high}, but must lie in 0..{limit - 1}")
        kept = None if weight is None else weight.float()
        return Csr(*sort.sort_edges(rows, cols, num_rows, num_cols, kept), num_cols)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.indptr.numel() - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, as a dense matrix has them."""
        return self.num_rows, self.num_cols

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
        rows = torch.arange(self.num_rows, device=self.indptr.device)
        return torch.repeat_interleave(rows, self.indptr.diff(), output_size=self.nnz)

    def degree(self) -> Tensor:
        """Sum of the weights of every row (their count where there are none), float32 ``[num_rows]``."""
        if self.weight is None:
            return self.indptr.diff().float()
        return self.weight.new_zeros(self.num_rows).index_add_(0, self.row_index(), self.weight)

    def with_weight(self, weight: Tensor | None) -> Csr:
        """The matrix with the same entries and other weights, float32 ``[nnz]``, or None for ones."""
        if weight is not None and weight.numel() != self.nnz:
            raise InputError(f"{weight.numel()} weights were given, but the matrix has {self.nnz} entries")
        return replace(self, weight=weight)

    def to(self, device: torch.device) -> Csr:
        """The matrix with its arrays on ``device``; the host does not wait for copies from its memory."""
        if device == self.indptr.device:
            return self
        late = device.type != "cpu"
        host = (self.indptr if self.indptr.device.type == "cpu" else self.host_indptr) if late else None
        indptr, indices = (sent_over(values, device) for values in (self.indptr, self.indices))
        weight = None if self.weight is None else sent_over(self.weight, device)
        return Csr(indptr, indices, weight, self.num_cols, host)

    def transpose(self) -> Csr:
        """The transposed matrix, ``[num_cols, num_rows]``; arrays that stay equal are shared."""
        indptr, indices, weight = sort.transpose(self.indptr, self.indices, self.weight, self.num_cols)
        if not (torch.equal(indptr, self.indptr) and torch.equal(indices, self.indices)):
            return Csr(indptr, indices, weight, self.num_rows)
        if weight is None or self.weight is None or torch.equal(weight, self.weight):
            return self
        return replace(self, weight=weight)

    def select_rows(self, index: Tensor) -> Csr:
        """The rows ``index``, in that order."""
        indptr = self.indptr.new_zeros(index.numel() + 1)
        torch.cumsum(self.indptr.diff()[index], 0, out=indptr[1:])
        entry = self.entries_of(index)
        weight = None if self.weight is None else self.weight[entry]
        return Csr(indptr, self.indices[entry], weight, self.num_cols)

    def entries_of(self, index: Tensor) -> Tensor:
        """The places in ``indices`` of the entries of the rows ``index``, row after row; int64."""
        counts = self.indptr.diff()[index]
        ends = counts.cumsum(0)
        total = int(ends[-1]) if index.numel() else 0
        entry = torch.arange(total, device=index.device)
        entry += torch.repeat_interleave(self.indptr[:-1][index] - (ends - counts), counts, output_size=total)
        return entry

    def select_columns(self, columns: Tensor) -> Csr:
        """The ``columns`` (ascending), renumbered in their order."""
        number = self.indices.new_full((self.num_cols,), -1)
        number[columns] = torch.arange(columns.numel(), dtype=number.dtype, device=number.device)
        indices = number[self.indices]
        kept = indices >= 0
        before = torch.zeros(self.nnz + 1, dtype=torch.int64, device=kept.device)
        torch.cumsum(kept, 0, out=before[1:])
        weight = None if self.weight is None else self.weight[kept]
        return Csr(before[self.indptr], indices[kept], weight, columns.numel())

    def distinct(self) -> Csr:
        """The matrix with one entry per (row, column): of duplicates the one with the largest weight."""
        row = self.row_index()
        first = torch.ones(self.nnz, dtype=torch.bool, device=row.device)
        first[1:] = (row[1:] != row[:-1]) | (self.indices[1:] != self.indices[:-1])
        if bool(first.all()):
            return self
        weight = None
        if self.weight is not None:
            slot = first.long().cumsum(0) - 1
            lowest = self.weight.new_full((int(first.sum()),), -torch.inf)
            weight = lowest.scatter_reduce_(0, slot, self.weight, "amax")
        indptr = torch.zeros_like(self.indptr)
        torch.cumsum(torch.bincount(row[first], minlength=self.num_rows), 0, out=indptr[1:])
        return Csr(indptr, self.indices[first], weight, self.num_cols)

    def scaled(self, factor: float) -> Csr:
        """The matrix with all its weights multiplied by ``factor``."""
        if factor == 1:
            return self
        ones = torch.ones(self.nnz, device=self.indices.device)
        return replace(self, weight=factor * (ones if self.weight is None else self.weight))

    def to_dense(self) -> Tensor:
        """The dense matrix; duplicates are added."""
        dense = torch.zeros(self.num_rows, self.num_cols, device=self.indptr.device)
        weight = torch.ones_like(self.indices, dtype=torch.float32) if self.weight is None else self.weight
        return dense.index_put_((self.row_index(), self.indices.long()), weight, accumulate=True)

    def matmul(self, x: Tensor, out: Tensor | None = None, accumulate: bool = False) -> Tensor:
        """``out (+)= self @ x`` for ``x`` float32 ``[num_cols, k]``."""
        if x.dim() != 2 or x.shape[0] != self.num_cols:
            raise InputError(
                f"x has shape {list(x.shape)}, but the matrix has {self.num_cols} columns: pass as many rows"
            )
        return aggregate(self.indptr, self.indices, self.weight, x, out=out, accumulate=accumulate)


def row_range(matrix: Csr, start: int, stop: int) -> Csr:
    """Rows ``start`` to ``stop`` of ``matrix``; only the row pointers are copied."""
    if (start, stop) == (0, matrix.num_rows):
        return matrix
    bounds = matrix.indptr if matrix.host_indptr is None else matrix.host_indptr
    first, last = int(bounds[start]), int(bounds[stop])
    weight = None if matrix.weight is None else matrix.weight[first:last]
    indptr = matrix.indptr[start : stop + 1] - first
    host = None if matrix.host_indptr is None else bounds[start : stop + 1] - first
    return Csr(indptr, matrix.indices[first:last], weight, matrix.num_cols, host)
