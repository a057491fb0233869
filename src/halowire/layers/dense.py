"""Dense products into pooled buffers: fresh memory costs page faults, reused memory does not."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels import empty


def empty_rows(like: Tensor, rows: int, cols: int) -> Tensor:
    """Uninitialised float32 ``[rows, cols]`` on the device of ``like``, from the pool where there is one."""
    return empty(rows, cols) if like.device.type == "cpu" else like.new_empty(rows, cols)


def product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """``out = a @ b``, ``[n, k]``; a pooled buffer if none is given."""
    return torch.mm(a, b, out=empty_rows(a, a.shape[0], b.shape[1]) if out is None else out)


def affine(a: Tensor, b: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """``out = a @ b + bias``, ``[n, k]``."""
    return torch.mm(a, b, out=out) if bias is None else torch.addmm(bias, a, b, out=out)


def add_rows(rows: Tensor, total: Tensor | None) -> Tensor:
    """The sum over ``rows`` ``[n, k]``, and ``total`` if there is one: ``[k]``."""
    found = rows.sum(0)
    return found if total is None else found.add_(total)


def add_product(total: Tensor | None, a: Tensor, b: Tensor) -> Tensor:
    """``total + a @ b``, in place; ``a @ b`` where there is no total yet."""
    return a @ b if total is None else total.addmm_(a, b)
