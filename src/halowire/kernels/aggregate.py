"""CSR aggregation: every destination row sums its weighted source rows."""

from __future__ import annotations

import torch
from torch import Tensor


def aggregate(
    indptr: Tensor,
    indices: Tensor,
    weight: Tensor | None,
    x: Tensor,
    out: Tensor | None = None,
    accumulate: bool = False,
) -> Tensor:
    """``out[i] (+)= sum over e in row i of weight[e] * x[indices[e]]``."""
    rows = torch.repeat_interleave(torch.arange(indptr.numel() - 1), indptr.diff())
    values = x[indices.long()] if weight is None else x[indices.long()] * weight[:, None]
    if out is None:
        out = torch.empty(indptr.numel() - 1, x.shape[1])
        accumulate = False
    if not accumulate:
        out.zero_()
    return out.index_add_(0, rows, values)
