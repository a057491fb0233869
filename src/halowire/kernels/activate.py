"""LayerNorm, ReLU and dropout fused into one pass over the rows, forward and backward."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels.buffers import rows_for
from halowire.kernels.counter_random import Drop, drop_factor
from halowire.kernels.dispatch import (
    adjacent,
    check_rows,
    check_vector,
    native_for,
    run,
    strided,
    threads_for,
    triton_for,
)

MAX_BLOCKS = 256
MIN_BLOCK_ROWS = 128
WORK_PER_ELEMENT = 4


def activate(
    x: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    relu: bool,
    drop: Drop | None,
    eps: float = 1e-5,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """``out = dropout(relu((x - mean) rstd gamma + beta))``, mean and variance of each row.

    Args:
        x: float32 ``[n, k]``.
        gamma, beta: float32 ``[k]``; without ``gamma`` there is no normalisation, without ``beta`` no shift.
        relu: whether negative values become zero.
        drop: dropout, or None.
        eps: added to the variance.
        out: float32 ``[n, k]``; a buffer from the pool if not given.

    Returns:
        ``out`` and, with normalisation, float32 ``[n, 2]``: mean and ``rstd = 1 / sqrt(variance + eps)`` of the rows.
    """
    rows, cols, drop = check(x, gamma, beta, drop)
    out = rows_for(rows, cols, x.device, out)
    beta = shift(gamma, beta)
    tensors = x, out, gamma, None if drop is None else drop.ids
    gpu = triton_for(cols, *tensors)
    if gpu is not None and adjacent(out):
        return out, gpu.activate(*strided(x), gamma, beta, relu, drop, eps, out)
    native = native_for(*tensors)
    if native is None or not adjacent(out):
        return activate_twin(x, gamma, beta, relu, drop, eps, out)
    stats = None if gamma is None else torch.empty(rows, 2)
    run(
        native.activate, False, *strided(x), *strided(None), *strided(out), rows, cols, gamma, beta, stats, eps, relu,
        *dropout(drop), None, None, blocks_of(rows), threads_for(rows * cols * WORK_PER_ELEMENT),
    )  # fmt: skip
    return out, stats


def activate_backward(
    grad: Tensor,
    x: Tensor,
    stats: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    relu: bool,
    drop: Drop | None,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients of ``activate`` from ``grad`` float32 ``[n, k]``; the masks are drawn and computed again, not stored.

    With ``g`` = grad through dropout and ReLU, ``t = g gamma`` and ``z = (x - mean) rstd``:
    ``grad_x = rstd (t - mean(t) - z mean(t z))``, ``grad_gamma = sum of g z``, ``grad_beta = sum of g`` over the rows.
    The sums do not depend on the number of threads. ``out`` (for ``grad_x``) may be ``grad`` itself.
    """
    rows, cols, drop = check(x, gamma, beta, drop)
    check_rows("grad", grad, rows, cols)
    if (stats is None) != (gamma is None):
        raise InputError("stats and gamma go together: pass what activate returned, None where gamma is None")
    if stats is not None:
        check_rows("stats", stats, rows, 2)
        stats = stats.contiguous()
    out = rows_for(rows, cols, x.device, out)
    shifted = shift(gamma, beta)
    tensors = x, out, gamma, None if drop is None else drop.ids
    gpu = triton_for(cols, grad, *tensors)
    if gpu is not None and adjacent(out):
        affine = gpu.activate_backward(*strided(grad), *strided(x), stats, gamma, shifted, relu, drop, out)
        return (out, None, None) if affine is None else (out, affine[0], None if beta is None else affine[1])
    native = native_for(*tensors)
    if native is None or not adjacent(out):
        grad_x, grad_gamma, grad_beta = activate_backward_twin(grad, x, stats, gamma, shifted, relu, drop)
        return out.copy_(grad_x), grad_gamma, None if beta is None else grad_beta
    affine = None if gamma is None else torch.empty(2, cols)
    partial = None if gamma is None else torch.empty(blocks_of(rows), 2, cols)
    run(
        native.activate, True, *strided(x), *strided(grad), *strided(out), rows, cols, gamma, shifted, stats, 0.0, relu,
        *dropout(drop), partial, affine, blocks_of(rows), threads_for(rows * cols * WORK_PER_ELEMENT),
    )  # fmt: skip
    if affine is None:
        return out, None, None
    return out, affine[0], None if beta is None else affine[1]


def check(x: Tensor, gamma: Tensor | None, beta: Tensor | None, drop: Drop | None) -> tuple[int, int, Drop | None]:
    """Raise if types or shapes do not fit; returns the shape of ``x``, and ``drop`` unless it drops nothing."""
    check_rows("x", x)
    rows, cols = x.shape
    for name, vector in (("gamma", gamma), ("beta", beta)):
        if vector is not None:
            check_vector(name, vector, (torch.float32,), cols)
    if drop is not None:
        check_vector("ids of dropout", drop.ids, (torch.int64,), rows)
    return rows, cols, None if drop is None or drop.p == 0.0 else drop


def shift(gamma: Tensor | None, beta: Tensor | None) -> Tensor | None:
    """The shift that goes with ``gamma``: zeros where none was given."""
    return torch.zeros_like(gamma) if gamma is not None and beta is None else beta


def blocks_of(rows: int) -> int:
    """Number of blocks that the rows are cut into; it does not depend on the number of threads, nor do the sums."""
    return min(MAX_BLOCKS, -(-rows // MIN_BLOCK_ROWS))


def dropout(drop: Drop | None) -> tuple[bool, int, float, int, Tensor | None]:
    """Dropout as native code takes it: whether there is any, threshold, scale, stream, and the rows' ids."""
    return (False, 0, 1.0, 0, None) if drop is None else (True, drop.threshold, drop.scale, drop.stream, drop.ids)


def activate_twin(
    x: Tensor, gamma: Tensor | None, beta: Tensor | None, relu: bool, drop: Drop | None, eps: float, out: Tensor
) -> tuple[Tensor, Tensor | None]:
    """:func:`activate` in torch; ``gamma`` and ``beta`` are both given or both None."""
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


def activate_backward_twin(
    grad: Tensor,
    x: Tensor,
    stats: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    relu: bool,
    drop: Drop | None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """:func:`activate_backward` in torch; ``gamma`` and ``beta`` are both given or both None."""
    g = grad if drop is None else grad * drop_factor(drop, x.shape[1])
    if gamma is None or beta is None or stats is None:
        return g * (x > 0) if relu else g, None, None
    z = (x - stats[:, :1]) * stats[:, 1:]
    if relu:
        g = g * (z * gamma + beta > 0)
    t = g * gamma
    grad_x = stats[:, 1:] * (t - t.mean(1, keepdim=True) - z * (t * z).mean(1, keepdim=True))
    return grad_x, (g * z).sum(0), g.sum(0)
