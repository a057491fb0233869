"""Dense products into pooled buffers: fresh memory costs page faults, reused memory does not."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from halowire.kernels import empty


def empty_on(device: torch.device, rows: int, cols: int) -> Tensor:
    """Uninitialised float32 ``[rows, cols]`` on ``device``; on the CPU, memory of the pool."""
    return empty(rows, cols, device=device)


def empty_rows(like: Tensor, rows: int, cols: int) -> Tensor:
    """Uninitialised float32 ``[rows, cols]`` on the device of ``like``; on the CPU, memory of the pool."""
    return empty_on(like.device, rows, cols)


def product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """``out = a @ b``, ``[n, k]``; without ``out``, in a pooled buffer."""
    return torch.mm(a, b, out=empty_rows(a, a.shape[0], b.shape[1]) if out is None else out)


def affine(a: Tensor, b: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """``out = a @ b + bias``, ``[n, k]``."""
    return torch.mm(a, b, out=out) if bias is None else torch.addmm(bias, a, b, out=out)


def gradient_of(parameter: nn.Parameter) -> Tensor:
    """The gradient of ``parameter``, to which backward adds; it is made of zeros where there is none."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
