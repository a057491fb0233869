"""Graph attention: a softmax over each row's edges and the weighted sum of their sources, forward and backward.

Edge e from node j to node i has, in each of the ``H`` heads, the weight

    a_e = exp(s_e) / sum of exp(s) over the edges into i,    s_e = leaky_relu(src_j + dst_i)

and ``out_i = sum of a_e x_j``, head by head. No value of an edge is stored: backward computes the weights again.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.errors import InputError
from halowire.kernels.buffers import empty, rows_for
from halowire.kernels.csr import Csr
from halowire.kernels.dispatch import (
    adjacent,
    check_rows,
    matrix_of,
    native_for,
    run,
    strided,
    threads_for,
    triton_for,
)

MOST_HEADS = 64


class Attended(NamedTuple):
    """The result of :func:`attend`.

    Attributes:
        out: the weighted sums, ``[n, H C]``.
        positive: the part of ``out`` from edges whose score is positive, ``[n, H C]``; None without ``backward``.
        nodes: float32 ``[n, 4, H]``: ``dst``, the largest score, ``1 / sum of exp(s - largest)``, the sum of the
            weights of edges whose score is positive.
    """

    out: Tensor
    positive: Tensor | None
    nodes: Tensor


class Targets(NamedTuple):
    """The result of :func:`attend_targets`: the gradient of ``dst`` ``[n, H]``; ``nodes`` with ``<grad, out>`` last."""

    dst_grad: Tensor
    nodes: Tensor


class Scores(NamedTuple):
    """The score vectors of ``src = <x, source>`` and ``dst = <x, target>``, head by head; both ``[H, C]``."""

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
    """Attend over the entries of ``matrix`` ``[n, m]``, whatever their weights. Rows without entries give 0.

    Args:
        matrix: rows are the targets, columns the sources.
        x: float32 ``[m, H C]``.
        src, dst: scores of sources and targets, float32 ``[m, H]`` and ``[n, H]``.
        slope: slope of the leaky ReLU below zero, 0 to 1.
        backward: whether to compute ``positive``, which backward needs.
        out, positive: matrices to write to, float32 ``[n, H C]``; buffers from the pool if not given.
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
    tensors = matrix.indptr, matrix.indices, x, src, dst, out
    gpu = triton_for(x.shape[1] // heads, *tensors)
    if gpu is not None and adjacent(out, positive):
        found = x.new_empty(matrix.num_rows, 4, heads)
        found[:, 0] = dst
        gpu.attend(matrix.indptr, matrix.indices, *strided(x), src.contiguous(), found, slope, out, positive)
        return Attended(out, positive, found)
    native = native_for(*tensors)
    if native is None or not adjacent(out, positive):
        return attend_twin(matrix, x, src, dst, slope, out, positive)
    nodes = empty(matrix.num_rows, 4 * heads, padded=False)
    nodes[:, :heads] = dst
    run(
        native.attend, *matrix_of(matrix.indptr, matrix.indices, x.shape[0]), *strided(x), src.contiguous(), nodes,
        slope, *strided(out), *strided(positive), matrix.num_rows, heads, x.shape[1] // heads,
        threads_for((matrix.nnz + matrix.num_rows) * x.shape[1]),
    )  # fmt: skip
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
    gpu = triton_for(cols, grad, out, positive, nodes)
    if gpu is not None:
        made = Targets(grad.new_empty(rows, heads), torch.empty_like(nodes))
        matrices = *strided(grad), *strided(out), *strided(positive)
        gpu.attend_targets(*matrices, nodes, made.nodes, made.dst_grad, slope)
        return made
    native = native_for(grad, out, positive, nodes)
    if native is None:
        return attend_targets_twin(grad, out, positive, nodes, slope)
    back, dst_grad = empty(rows, 4 * heads, padded=False), empty(rows, heads, padded=False)
    run(
        native.attend_targets, *strided(grad), *strided(out), *strided(positive), nodes, back, dst_grad, slope, rows,
        heads, cols, threads_for(rows * heads * cols),
    )  # fmt: skip
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

    ``x_grad_j = sum of a_e grad_i + src_grad_j source + dst_grad_j target``, the last term only with ``are_targets``:
    the sources are then the first ``r`` targets. ``src_grad_j = <x_j, sum of a_e l_e grad_i> - sum of a_e l_e D_i``
    with the leaky ReLU's slope ``l_e``. ``grad`` is ``[n, H C]``; ``x`` and ``src`` are of the rows of ``transposed``.
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
    tensors = transposed.indptr, transposed.indices, grad, x, src, out
    att_src, att_dst = (part.detach().reshape(-1).contiguous() for part in scores)
    gpu = triton_for(x.shape[1] // heads, *tensors)
    if gpu is not None and adjacent(out):
        src_grad = x.new_empty(rows, heads)
        gpu.attend_sources(
            transposed.indptr, transposed.indices, *strided(grad), *strided(x), src.contiguous(), targets.nodes,
            (att_src, att_dst), dst_grad, slope, out, src_grad,
        )  # fmt: skip
        return out, src_grad
    native = native_for(*tensors)
    if native is None or not adjacent(out):
        return attend_sources_twin(transposed, grad, x, src, dst_grad, targets.nodes, slope, scores, out)
    src_grad = empty(rows, heads, padded=False)
    run(
        native.attend_sources, *matrix_of(transposed.indptr, transposed.indices, grad.shape[0]), *strided(grad),
        *strided(x), src.contiguous(), targets.nodes, att_src, att_dst, dst_grad, slope, *strided(out), src_grad, rows,
        heads, x.shape[1] // heads, threads_for((transposed.nnz + rows) * x.shape[1]),
    )  # fmt: skip
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


def attend_twin(
    matrix: Csr, x: Tensor, src: Tensor, dst: Tensor, slope: float, out: Tensor, positive: Tensor | None
) -> Attended:
    """:func:`attend` in torch, edge by edge; ``positive`` is None where it is not wanted."""
    row, col, heads = matrix.row_index(), matrix.indices.long(), src.shape[1]
    score = F.leaky_relu(src[col] + dst[row], slope)
    places = row[:, None].expand_as(score)
    largest = torch.zeros_like(dst).scatter_reduce(0, places, score, "amax", include_self=False)
    power = (score - largest[row]).exp()
    sums = _sum_edges(power, row, matrix.indptr)
    inverse = torch.where(sums == 0, sums, 1 / sums)
    weight = power * inverse[row]
    chosen = weight * (score > 0)
    share = _sum_edges(chosen, row, matrix.indptr)
    values = x[col].view(col.numel(), heads, x.shape[1] // heads)
    _sum_rows(weight, values, row, matrix.indptr, out)
    if positive is not None:
        _sum_rows(chosen, values, row, matrix.indptr, positive)
    return Attended(out, positive, torch.stack([dst, largest, inverse, share], 1))


def attend_targets_twin(grad: Tensor, out: Tensor, positive: Tensor, nodes: Tensor, slope: float) -> Targets:
    """:func:`attend_targets` in torch."""
    shape = (grad.shape[0], nodes.shape[2], grad.shape[1] // nodes.shape[2])
    dot = (grad * out).view(shape).sum(2)
    part = (grad * positive).view(shape).sum(2)
    return Targets((1 - slope) * (part - dot * nodes[:, 3]), torch.stack([*nodes[:, :3].unbind(1), dot], 1))


def attend_sources_twin(
    transposed: Csr,
    grad: Tensor,
    x: Tensor,
    src: Tensor,
    dst_grad: Tensor | None,
    nodes: Tensor,
    slope: float,
    scores: Scores,
    out: Tensor,
) -> tuple[Tensor, Tensor]:
    """:func:`attend_sources` in torch, edge by edge; ``dst_grad`` is None where the sources are no targets."""
    row, col, heads = transposed.row_index(), transposed.indices.long(), src.shape[1]
    dst, largest, inverse, dot = nodes[col].unbind(1)
    before = src[row] + dst
    weight = (F.leaky_relu(before, slope) - largest).exp() * inverse
    values = grad[col].view(col.numel(), heads, x.shape[1] // heads)
    _sum_rows(weight, values, row, transposed.indptr, out)
    own = x.reshape(x.shape[0], heads, x.shape[1] // heads)
    score_grad = weight * ((values * own[row]).sum(2) - dot) * torch.where(before > 0, 1.0, slope)
    src_grad = _sum_edges(score_grad, row, transposed.indptr)
    extra = src_grad[:, :, None] * scores.source.detach().view(heads, -1)
    if dst_grad is not None:
        extra = extra + dst_grad[:, :, None] * scores.target.detach().view(heads, -1)
    return out.add_(extra.reshape(out.shape)), src_grad


def _sum_rows(weight: Tensor, values: Tensor, row: Tensor, indptr: Tensor, out: Tensor) -> None:
    """``out[row_e] = sum of weight_e values_e``, head by head; ``values`` ``[E, H, C]``."""
    products = (weight[:, :, None] * values).reshape(row.numel(), out.shape[1])
    if out.device.type == "cpu":
        out.zero_().index_add_(0, row, products)
    else:
        out.copy_(_sum_edges(products, row, indptr))


def _sum_edges(values: Tensor, row: Tensor, indptr: Tensor) -> Tensor:
    """The sums over the edges of every row, ``[n, ...]``, of ``values`` ``[E, ...]``, edge after edge."""
    if values.device.type == "cpu":
        return values.new_zeros(indptr.numel() - 1, values.shape[1]).index_add(0, row, values)
    # index_add uses atomics on a GPU, where the order of the edges, and so the rounding, would change from run to run.
    return torch.segment_reduce(values, "sum", offsets=indptr, axis=0, initial=0, unsafe=True)
