"""LayerNorm, ReLU and dropout fused into one pass over the rows, forward and backward."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import activate_twin as twin
from halowire.kernels.buffers import rows_for
from halowire.kernels.counter_random import Drop
from halowire.kernels.dispatch import (
    address,
    adjacent,
    check_rows,
    check_vector,
    level_number,
    native_for,
    threads_for,
    unit_columns,
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
    rows, cols = check(x, gamma, beta, drop)
    out = rows_for(rows, cols, x.device, out)
    beta = shift(gamma, beta)
    drop = effective(drop)
    if not runs_natively(x, out, gamma, drop):
        return twin.activate(x, gamma, beta, relu, drop, eps, out)
    stats = None if gamma is None else torch.empty(rows, 2)
    run(False, unit_columns(x), None, out, gamma, beta, stats, eps, relu, drop, None)
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
    rows, cols = check(x, gamma, beta, drop)
    check_rows("grad", grad, rows, cols)
    if (stats is None) != (gamma is None):
        raise InputError("stats and gamma go together: pass what activate returned, None where gamma is None")
    if stats is not None:
        check_rows("stats", stats, rows, 2)
        stats = stats.contiguous()
    out = rows_for(rows, cols, x.device, out)
    shifted = shift(gamma, beta)
    drop = effective(drop)
    if not runs_natively(x, out, gamma, drop):
        grad_x, grad_gamma, grad_beta = twin.activate_backward(grad, x, stats, gamma, shifted, relu, drop)
        return out.copy_(grad_x), grad_gamma, None if beta is None else grad_beta
    affine = None if gamma is None else torch.empty(2, cols)
    run(True, unit_columns(x), unit_columns(grad), out, gamma, shifted, stats, 0.0, relu, drop, affine)
    if affine is None:
        return out, None, None
    return out, affine[0], None if beta is None else affine[1]


def check(x: Tensor, gamma: Tensor | None, beta: Tensor | None, drop: Drop | None) -> tuple[int, int]:
    """Raise if types or shapes do not fit; returns the shape of ``x``."""
    check_rows("x", x)
    rows, cols = x.shape
    for name, vector in (("gamma", gamma), ("beta", beta)):
        if vector is not None:
            check_vector(name, vector, (torch.float32,), cols)
    if drop is not None:
        check_vector("ids of dropout", drop.ids, (torch.int64,), rows)
    return rows, cols


def effective(drop: Drop | None) -> Drop | None:
    """``drop``, or None where it drops nothing."""
    return None if drop is None or drop.p == 0.0 else drop


def shift(gamma: Tensor | None, beta: Tensor | None) -> Tensor | None:
    """The shift that goes with ``gamma``: zeros where none was given."""
    return torch.zeros_like(gamma) if gamma is not None and beta is None else beta


def runs_natively(x: Tensor, out: Tensor, gamma: Tensor | None, drop: Drop | None) -> bool:
    """Whether native code can take the tensors."""
    ids = None if drop is None else drop.ids
    return native_for(x, out, gamma, ids) is not None and adjacent(out)


def run(
    backward: bool,
    x: Tensor,
    grad: Tensor | None,
    out: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    stats: Tensor | None,
    eps: float,
    relu: bool,
    drop: Drop | None,
    affine: Tensor | None,
) -> None:
    """Call the native kernel on rows cut into blocks whose number depends on the number of rows alone."""
    rows, cols = x.shape
    blocks = min(MAX_BLOCKS, -(-rows // MIN_BLOCK_ROWS))
    partial = torch.empty(blocks, 2, cols) if affine is not None else None
    native = native_for()
    assert native is not None
    native.activate(
        level_number(),
        backward,
        x.data_ptr(),
        x.stride(0),
        address(grad),
        0 if grad is None else grad.stride(0),
        out.data_ptr(),
        out.stride(0),
        rows,
        cols,
        address(gamma),
        address(beta),
        address(stats),
        eps,
        relu,
        drop is not None,
        0 if drop is None else drop.threshold,
        1.0 if drop is None else drop.scale,
        0 if drop is None else drop.stream,
        0 if drop is None else drop.ids.data_ptr(),
        address(partial),
        address(affine),
        blocks,
        threads_for(rows * cols * WORK_PER_ELEMENT),
    )
