"""The torch twin of the fused LayerNorm, ReLU and dropout."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels.counter_random import Drop, drop_factor


def activate(
    x: Tensor, gamma: Tensor | None, beta: Tensor | None, relu: bool, drop: Drop | None, eps: float, out: Tensor
) -> tuple[Tensor, Tensor | None]:
    """``out = dropout(relu((x - mean) rstd gamma + beta))`` and the ``[n, 2]`` mean and rstd of the rows."""
    y, stats = x, None
    if gamma is not None and beta is not None:
        mean = x.mean(1, keepdim=True)
        centred = x - mean
        rstd = torch.rsqrt(centred.square().mean(1, keepdim=True) + eps)
        stats = torch.cat([mean, rstd], 1)
        y = centred * rstd * gamma + beta
    if relu:
        y = y.relu()
    if drop is not None:
        y = y * drop_factor(drop, x.shape[1])
    return out.copy_(y), stats


def activate_backward(
    grad: Tensor,
    x: Tensor,
    stats: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    relu: bool,
    drop: Drop | None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients of x, gamma and beta."""
    g = grad if drop is None else grad * drop_factor(drop, x.shape[1])
    if gamma is None or beta is None or stats is None:
        return g * (x > 0) if relu else g, None, None
    z = (x - stats[:, :1]) * stats[:, 1:]
    if relu:
        g = g * (z * gamma + beta > 0)
    t = g * gamma
    grad_x = stats[:, 1:] * (t - t.mean(1, keepdim=True) - z * (t * z).mean(1, keepdim=True))
    return grad_x, (g * z).sum(0), g.sum(0)
