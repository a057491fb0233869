"""What follows a graph layer: LayerNorm, ReLU and dropout in one pass each way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from halowire.kernels.activate import activate, activate_backward
from halowire.kernels.random import Drop


def norm_relu_dropout(x: Tensor, gamma: Tensor | None, beta: Tensor | None, drop: Drop | None) -> Tensor:
    """``dropout(relu(layer_norm(x)))`` for ``x`` ``[n, k]``; no normalisation where ``gamma`` is None.

    The dropout mask depends on (seed, epoch, layer, original node id, column) alone: any worker can draw it for any
    node, and a run is the same whatever the number of workers.
    """
    return _Activation.apply(x, gamma, beta, drop)  # type: ignore[no-any-return, no-untyped-call]


class _Activation(torch.autograd.Function):
    """Keeps the input and two numbers per row; both masks are drawn again in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gamma: Tensor | None, beta: Tensor | None, drop: Drop | None) -> Tensor:
        out, stats = activate(x, gamma, beta, True, drop)
        ctx.save_for_backward(x, stats, gamma, beta)
        ctx.drop = drop
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, stats, gamma, beta = ctx.saved_tensors
        return *activate_backward(grad, x, stats, gamma, beta, True, ctx.drop), None
