"""Layer 0: the same map as every graph layer, but on features that never change and so never travel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from halowire.nn.dense import affine
from halowire.nn.features import Features
from halowire.nn.propagation import Propagation


def input_linear(
    features: Features, weight: Tensor, weight_self: Tensor | None, bias: Tensor | None, spread: Propagation
) -> Tensor:
    """``out = A x W^T + x W_self^T + b`` on the owned rows, ``[n, out]``, without any exchange."""
    function = _Gathered if features.gathered is not None else _Local
    return function.apply(weight, weight_self, bias, features, spread)  # type: ignore[no-any-return, no-untyped-call]


class _Gathered(torch.autograd.Function):
    """``A x`` is cached: two dense products."""

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        weight_self: Tensor | None,
        bias: Tensor | None,
        features: Features,
        spread: Propagation,
    ) -> Tensor:
        assert features.gathered is not None
        out = affine(features.gathered, weight.t(), bias)
        if weight_self is not None:
            features.own.times(weight_self, out=out)
        ctx.features, ctx.parts = features, (weight_self is not None, bias is not None)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        has_self, has_bias = ctx.parts
        self_grad = ctx.features.own.weight_grad(grad) if has_self else None
        return grad.t() @ ctx.features.gathered, self_grad, grad.sum(0) if has_bias else None, None, None


class _Local(torch.autograd.Function):
    """Raw halo rows are here: multiply own and halo rows by the weights, then aggregate."""

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        weight_self: Tensor | None,
        bias: Tensor | None,
        features: Features,
        spread: Propagation,
    ) -> Tensor:
        assert features.halo is not None
        out = spread.inner.matmul(features.own.times(weight))
        spread.halo.matmul(features.halo.times(weight), out=out, accumulate=True)
        if weight_self is not None:
            features.own.times(weight_self, out=out)
        if bias is not None:
            out += bias
        ctx.features, ctx.spread, ctx.parts = features, spread, (weight_self is not None, bias is not None)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        features: Features = ctx.features
        spread: Propagation = ctx.spread
        has_self, has_bias = ctx.parts
        assert features.halo is not None
        weight_grad = features.own.weight_grad(spread.inner_t.matmul(grad))
        weight_grad = weight_grad + features.halo.weight_grad(spread.halo_t.matmul(grad))
        self_grad = features.own.weight_grad(grad) if has_self else None
        return weight_grad, self_grad, grad.sum(0) if has_bias else None, None, None
