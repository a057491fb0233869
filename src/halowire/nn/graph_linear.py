"""The graph layer that GCN and GraphSAGE share, with its exchange hidden behind its own products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halowire.kernels.random import Drop
from halowire.nn.dense import affine, product
from halowire.nn.propagation import Propagation


@dataclass(frozen=True, eq=False)
class Undropped:
    """Boundary rows before dropout ``[b, k]``, which change slowly enough for delta coding, and the halo's dropout."""

    rows: Tensor
    drop: Drop | None


def graph_linear(
    x: Tensor,
    weight: Tensor,
    weight_self: Tensor | None,
    bias: Tensor | None,
    spread: Propagation,
    layer: int,
    undropped: Undropped | None = None,
) -> Tensor:
    r"""``out = A x W^T + x W_self^T + b`` on the owned rows, ``[n, in]`` to ``[n, out]``.

    ``A`` is the whole graph's normalised adjacency. When ``out < in``, the rows are multiplied by ``W`` first, so that
    the narrower ``x W^T`` is sent and aggregated; otherwise ``x`` itself is. ``weight_self`` is None for GCN, whose
    self loops are in ``A``. Where ``undropped`` is given, those rows travel instead of ``x``, before any weights, and
    the receiver applies the owner's dropout to them; gradients return as for ``x``.
    """
    if undropped is None and weight.shape[0] < weight.shape[1]:
        return _WeightsFirst.apply(x, weight, weight_self, bias, spread, layer)  # type: ignore[no-any-return, no-untyped-call]
    return _AggregateFirst.apply(  # type: ignore[no-any-return, no-untyped-call]
        x, weight, weight_self, bias, spread, layer, undropped
    )


class _AggregateFirst(torch.autograd.Function):
    """``out = (A x) W^T + x W_self^T + b``; ``x`` travels."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        weight_self: Tensor | None,
        bias: Tensor | None,
        spread: Propagation,
        layer: int,
        undropped: Undropped | None,
    ) -> Tensor:
        flight = spread.exchange.start(x if undropped is None else undropped.rows, layer)
        gathered = spread.inner.matmul(x)
        out = None if weight_self is None else affine(x, weight_self.t(), bias)
        spread.exchange.finish(flight, spread.halo, gathered, undropped.drop if undropped else None)
        out = affine(gathered, weight.t(), bias) if out is None else out.addmm_(gathered, weight.t())
        ctx.save_for_backward(x, gathered, weight, weight_self)
        ctx.spread, ctx.layer, ctx.has_bias = spread, layer, bias is not None
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, gathered, weight, weight_self = ctx.saved_tensors
        spread: Propagation = ctx.spread
        gathered_grad = product(grad, weight)
        flight = spread.exchange.start_back(spread.halo_t.matmul(gathered_grad), ctx.layer)
        if weight_self is None:
            x_grad, self_grad = spread.inner_t.matmul(gathered_grad), None
        else:
            x_grad, self_grad = product(grad, weight_self), grad.t() @ x
            spread.inner_t.matmul(gathered_grad, out=x_grad, accumulate=True)
        weight_grad = grad.t() @ gathered
        bias_grad = grad.sum(0) if ctx.has_bias else None
        spread.exchange.finish_back(flight, x_grad)
        return x_grad, weight_grad, self_grad, bias_grad, None, None, None


class _WeightsFirst(torch.autograd.Function):
    """``out = A (x W^T) + x W_self^T + b``; ``x W^T`` travels."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        weight_self: Tensor | None,
        bias: Tensor | None,
        spread: Propagation,
        layer: int,
    ) -> Tensor:
        z = product(x, weight.t())
        flight = spread.exchange.start(z, layer)
        if weight_self is None:
            out = spread.inner.matmul(z)
            if bias is not None:
                out += bias
        else:
            out = affine(x, weight_self.t(), bias)
            spread.inner.matmul(z, out=out, accumulate=True)
        spread.exchange.finish(flight, spread.halo, out)
        ctx.save_for_backward(x, weight, weight_self)
        ctx.spread, ctx.layer, ctx.has_bias = spread, layer, bias is not None
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, weight_self = ctx.saved_tensors
        spread: Propagation = ctx.spread
        flight = spread.exchange.start_back(spread.halo_t.matmul(grad), ctx.layer)
        z_grad = spread.inner_t.matmul(grad)
        x_grad = self_grad = None
        if weight_self is not None:
            x_grad, self_grad = product(grad, weight_self), grad.t() @ x
        bias_grad = grad.sum(0) if ctx.has_bias else None
        spread.exchange.finish_back(flight, z_grad)
        weight_grad = z_grad.t() @ x
        x_grad = product(z_grad, weight) if x_grad is None else x_grad.addmm_(z_grad, weight)
        return x_grad, weight_grad, self_grad, bias_grad, None, None
