"""Dense products into pooled buffers: fresh memory costs page faults, reused memory does not."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels.buffers import empty


def product(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b`` in a pooled buffer, ``[n, k]``."""
    if a.is_cuda:
        return a @ b
    return torch.mm(a, b, out=empty(a.shape[0], b.shape[1]))


def affine(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    """``a @ b + bias`` in a pooled buffer, ``[n, k]``."""
    if bias is None:
        return product(a, b)
    if a.is_cuda:
        return torch.addmm(bias, a, b)
    return torch.addmm(bias, a, b, out=empty(a.shape[0], b.shape[1]))
