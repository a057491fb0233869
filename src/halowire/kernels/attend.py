"""Graph attention: a softmax over each row's edges and the weighted sum of their sources, forward and backward.

Edge e from node j to node i has, in each of the ``H`` heads, the weight

    a_e = exp(s_e) / sum of exp(s) over the edges into i,    s_e = leaky_relu(src_j + dst_i)

and ``out_i = sum of a_e x_j``, head by head. No value of an edge is stored: backward computes the weights again.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels import attend_twin as twin
from halowire.kernels.buffers import empty, rows_for
from halowire.kernels.csr import Csr
from halowire.kernels.dispatch import address, adjacent, check_rows, level_number, native_for, threads_for, unit_columns

MOST_HEADS = 64


class Attended(NamedTuple):
    """What :func:`attend` gives.

    Attributes:
        out: ``[n, H C]``.
        positive: the part of ``out`` from edges whose score is positive, ``[n, H C]``; None where nobody asked for it.
        nodes: float32 ``[n, 4, H]``: ``dst``, the largest score, ``1 / sum of exp(s - largest)``, the sum of the
            weights of edges whose score is positive.
    """

    out: Tensor
    positive: Tensor | None
    nodes: Tensor


class Targets(NamedTuple):
    """What :func:`attend_targets` gives: the gradient of ``dst`` ``[n, H]``; ``nodes`` with ``<grad, out>`` last."""

    dst_grad: Tensor
    nodes: Tensor


class Scores(NamedTuple):
    """``src = <x, source>`` and ``dst = <x, target>``, head by head; both ``[H, C]``."""

    source: Tensor
    target: Tensor


def attend(
    matrix: Csr,
    x: Tensor,
    src: Tensor,
    dst: Tensor,
    slope: float,
    backward: bool = True,
    out: Tensor | None = None,
    positive: Tensor | None = None,
) -> Attended:
    """Attend over the entries of ``matrix`` ``[n, m]``; its weights are not looked at. Rows without entries give 0.

    Args:
        matrix: rows are the targets, columns the sources.
        x: float32 ``[m, H C]``.
        src, dst: scores of sources and targets, float32 ``[m, H]`` and ``[n, H]``.
        slope: of the leaky ReLU below zero, 0 to 1.
        backward: whether to compute ``positive``, which backward needs.
        out, positive: where to write, float32 ``[n, H C]``; from the pool if not given.
    """
    heads = _heads(x, src)
    check_rows("x", x, matrix.num_cols)
    check_rows("src", src, matrix.num_cols, heads)
    check_rows("dst", dst, matrix.num_rows, heads)
    if not 0 <= slope <= 1:
        raise InputError(f"the slope of the leaky ReLU is {slope}; attention takes one in 0 <= slope <= 1")
    out = rows_for(matrix.num_rows, x.shape[1], x.device, out)
    if backward:
        positive = rows_for(matrix.num_rows, x.shape[1], x.device, positive)
    elif positive is not None:
        raise InputError("a place for `positive` was given, but backward=False: leave it out, or ask for backward")
    native = native_for(matrix.indptr, matrix.indices, x, src, dst, out)
    if native is None or not adjacent(out, positive):
        return Attended(*twin.attend(matrix, x, src, dst, slope, out, positive))
    nodes = empty(matrix.num_rows, 4 * heads, padded=False)
    nodes[:, :heads] = dst
    source, scores = unit_columns(x), src.contiguous()
    native.attend(
        level_number(),
        matrix.indptr.data_ptr(),
        matrix.indices.data_ptr(),
        matrix.indices.dtype == torch.int64,
        source.data_ptr(),
        source.stride(0),
        scores.data_ptr(),
        nodes.data_ptr(),
        slope,
        out.data_ptr(),
        out.stride(0),
        address(positive),
        0 if positive is None else positive.stride(0),
        matrix.num_rows,
        heads,
        x.shape[1] // heads,
        threads_for((matrix.nnz + matrix.num_rows) * x.shape[1]),
    )
    return Attended(out, positive, nodes.view(-1, 4, heads))


def attend_targets(grad: Tensor, attended: Attended, slope: float) -> Targets:
    """The part of backward that needs no edge, from ``grad`` ``[n, H C]``.

    With ``D = <grad, out>``: ``dst_grad = (1 - slope) (<grad, positive> - D sum of the positive edges' weights)``.
    """
    out, positive, nodes = attended
    if positive is None:
        raise InputError("attend was called with backward=False, so nothing is kept for backward: ask for it")
    rows, heads, cols = out.shape[0], nodes.shape[2], out.shape[1] // nodes.shape[2]
    check_rows("grad", grad, *out.shape)
    check_rows("positive", positive, *out.shape)
    _check_nodes(nodes, rows, heads)
    native = native_for(grad, out, positive, nodes)
    if native is None:
        return Targets(*twin.attend_targets(grad, out, positive, nodes, slope))
    grad = unit_columns(grad)
    back, dst_grad = empty(rows, 4 * heads, padded=False), empty(rows, heads, padded=False)
    native.attend_targets(
        level_number(),
        grad.data_ptr(),
        grad.stride(0),
        out.data_ptr(),
        out.stride(0),
        positive.data_ptr(),
        positive.stride(0),
        nodes.data_ptr(),
        back.data_ptr(),
        dst_grad.data_ptr(),
        slope,
        rows,
        heads,
        cols,
        threads_for(rows * heads * cols),
    )
    return Targets(dst_grad, back.view(-1, 4, heads))


def attend_sources(
    transposed: Csr,
    grad: Tensor,
    x: Tensor,
    src: Tensor,
    targets: Targets,
    slope: float,
    scores: Scores,
    are_targets: bool,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Gradients of ``x`` ``[r, H C]`` and ``src`` ``[r, H]`` of some sources, the rows of ``transposed`` ``[r, n]``.

    ``x_grad_j = sum of a_e grad_i + src_grad_j source + dst_grad_j target``, the last only where ``are_targets``: the
    sources then are the first ``r`` targets. ``src_grad_j = <x_j, sum of a_e l_e grad_i> - sum of a_e l_e D_i`` with
    the leaky ReLU's slope ``l_e``. ``grad`` is ``[n, H C]``, ``x`` and ``src`` belong to the rows of ``transposed``.
    """
    rows, heads = transposed.num_rows, src.shape[1]
    check_rows("grad", grad, transposed.num_cols, x.shape[1])
    check_rows("x", x, rows)
    check_rows("src", src, rows, _heads(x, src))
    _check_nodes(targets.nodes, transposed.num_cols, heads)
    check_rows("dst_grad", targets.dst_grad, transposed.num_cols, heads)
    if are_targets and rows > transposed.num_cols:
        raise InputError(f"{rows} sources cannot all be among {transposed.num_cols} targets: pass are_targets=False")
    if any(part.numel() != x.shape[1] or part.dtype != torch.float32 for part in scores):
        raise InputError(f"the score vectors must be float32 and have {x.shape[1]} values each, as many as a row of x")
    out = rows_for(rows, x.shape[1], x.device, out)
    dst_grad = targets.dst_grad[:rows].contiguous() if are_targets else None
    native = native_for(transposed.indptr, transposed.indices, grad, x, src, out)
    if native is None or not adjacent(out):
        return twin.attend_sources(transposed, grad, x, src, dst_grad, targets.nodes, slope, scores, out)
    grad, source, own = unit_columns(grad), unit_columns(x), src.contiguous()
    src_grad = empty(rows, heads, padded=False)
    att_src, att_dst = (part.detach().reshape(-1).contiguous() for part in scores)
    native.attend_sources(
        level_number(),
        transposed.indptr.data_ptr(),
        transposed.indices.data_ptr(),
        transposed.indices.dtype == torch.int64,
        grad.data_ptr(),
        grad.stride(0),
        source.data_ptr(),
        source.stride(0),
        own.data_ptr(),
        targets.nodes.data_ptr(),
        att_src.data_ptr(),
        att_dst.data_ptr(),
        address(dst_grad),
        slope,
        out.data_ptr(),
        out.stride(0),
        src_grad.data_ptr(),
        rows,
        heads,
        x.shape[1] // heads,
        threads_for((transposed.nnz + rows) * x.shape[1]),
    )
    return out, src_grad


def _heads(x: Tensor, src: Tensor) -> int:
    heads = src.shape[1] if src.dim() == 2 else 0
    if heads > MOST_HEADS:
        raise InputError(f"attention has {heads} heads, but at most {MOST_HEADS} can be computed: use fewer")
    if x.dim() != 2 or heads < 1 or x.shape[1] % heads:
        raise InputError(f"x {list(x.shape)} and src {list(src.shape)} do not fit: src has a column for each head of x")
    return heads


def _check_nodes(nodes: Tensor, rows: int, heads: int) -> None:
    good = nodes.shape == (rows, 4, heads) and nodes.is_contiguous() and nodes.dtype == torch.float32
    if not good:
        raise InputError(f"nodes is {list(nodes.shape)}, but must be [{rows}, 4, {heads}]: pass what attend gave")
