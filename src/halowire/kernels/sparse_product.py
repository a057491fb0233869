"""The product of two sparse matrices, which is needed once, when features are summed over edges before training."""

from __future__ import annotations

import torch

from halowire.kernels.csr import Csr, row_range
from halowire.kernels.joined import stacked, weights_of

MOST_TERMS = 1 << 24
"""Terms that are expanded at a time: they take some hundred megabytes."""


def sparse_product(a: Csr, b: Csr, most: int = MOST_TERMS) -> Csr:
    """``a @ b``, ``[r, k]`` for ``a`` ``[r, m]`` and ``b`` ``[m, k]``, with one entry per row and column.

    Every entry ``a[i, j]`` contributes the terms ``a[i, j] b[j, :]``; terms of the same row and column are added in the
    order of the entries. Rows are worked off in blocks of ``most`` terms, so that few are in memory at once.
    """
    terms = torch.zeros(a.nnz + 1, dtype=torch.int64)
    torch.cumsum(b.indptr.diff()[a.indices.long()], 0, out=terms[1:])
    ends = terms[a.indptr]
    blocks: list[Csr] = []
    start = 0
    while start < a.num_rows:
        within = int(torch.searchsorted(ends, ends[start] + most, right=True)) - 1
        stop = min(a.num_rows, max(start + 1, within))
        blocks.append(_block(row_range(a, start, stop), b))
        start = stop
    return stacked(blocks, b.num_cols)


def _block(a: Csr, b: Csr) -> Csr:
    counts = b.indptr.diff()[a.indices.long()]
    entries = b.entries_of(a.indices.long())
    total = entries.numel()
    rows = torch.repeat_interleave(a.row_index(), counts, output_size=total)
    values = torch.repeat_interleave(weights_of(a), counts, output_size=total) * weights_of(b)[entries]
    places, which = torch.unique(rows * b.num_cols + b.indices[entries], return_inverse=True)
    sums = torch.zeros(places.numel()).index_add_(0, which, values)
    row = torch.div(places, b.num_cols, rounding_mode="floor")
    return Csr.from_edges(row, places - row * b.num_cols, a.num_rows, b.num_cols, sums)
