"""Attention backward on a GPU: what needs no edge, then the gradients of the sources, from weights computed again."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from halowire.kernels.triton.launches import blocks, edge_tile, launch, row_tile
from halowire.kernels.triton.tiles import row_block


def attend_targets(
    grad: Tensor,
    grad_stride: int,
    out: Tensor,
    out_stride: int,
    positive: Tensor,
    positive_stride: int,
    nodes: Tensor,
    back: Tensor,
    dst_grad: Tensor,
    slope: float,
) -> None:
    """Write ``dst_grad`` ``[n, H]``, and ``back``: ``nodes`` ``[n, 4, H]`` with ``<grad, out>`` last."""
    rows, heads = dst_grad.shape
    cols = out.shape[1] // heads
    tile = row_tile(cols)
    launch(
        attend_targets_kernel, (blocks(rows, tile["M"]), heads), grad, grad_stride, out, out_stride, positive,
        positive_stride, nodes, back, dst_grad, slope, rows, H=heads, C=cols, **tile,
    )  # fmt: skip


@triton.jit(do_not_specialize=["rows"])
def attend_targets_kernel(
    grad, grad_stride, out, out_stride, positive, positive_stride, nodes, back, dst_grad, slope, rows,
    H: tl.constexpr, C: tl.constexpr, M: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """``M`` targets and one head, in a tile ``[M, KP]``."""
    row, live, cols, inside = row_block(rows, C, M, KP)
    head = tl.program_id(1)
    place = head * C + cols[None, :]
    g = tl.load(grad + row[:, None] * grad_stride + place, inside, 0.0)
    dot = tl.sum(g * tl.load(out + row[:, None] * out_stride + place, inside, 0.0), 1)
    part = tl.sum(g * tl.load(positive + row[:, None] * positive_stride + place, inside, 0.0), 1)
    node = row * 4 * H + head
    share = tl.load(nodes + node + 3 * H, live, 0.0)
    tl.store(back + node, tl.load(nodes + node, live, 0.0), live)
    tl.store(back + node + H, tl.load(nodes + node + H, live, 0.0), live)
    tl.store(back + node + 2 * H, tl.load(nodes + node + 2 * H, live, 0.0), live)
    tl.store(back + node + 3 * H, dot, live)
    tl.store(dst_grad + row * H + head, (1.0 - slope) * (part - dot * share), live)


def attend_sources(
    indptr: Tensor,
    indices: Tensor,
    grad: Tensor,
    grad_stride: int,
    x: Tensor,
    x_stride: int,
    src: Tensor,
    nodes: Tensor,
    vectors: tuple[Tensor, Tensor],
    dst_grad: Tensor | None,
    slope: float,
    out: Tensor,
    src_grad: Tensor,
) -> None:
    """Write the gradients of the sources, ``out`` ``[r, H C]``, and of their scores, ``src_grad`` ``[r, H]``."""
    rows, heads = src_grad.shape
    cols = x.shape[1] // heads
    launch(
        attend_sources_kernel, (rows, heads), indptr, indices, grad, grad_stride, x, x_stride, src, nodes, *vectors,
        dst_grad, slope, out, out.stride(0), src_grad, H=heads, C=cols, **edge_tile(cols, most=4096),
    )  # fmt: skip


@triton.jit
def attend_sources_kernel(
    indptr, indices, grad, grad_stride, x, x_stride, src, nodes, source, target, dst_grad, slope,
    out, out_stride, src_grad,
    H: tl.constexpr, C: tl.constexpr, EB: tl.constexpr, CB: tl.constexpr,
):  # fmt: skip
    """One source and one head; ``EB`` edges at a time, to the targets."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    cols = tl.arange(0, CB)
    place = head * C + cols
    first = tl.load(indptr + row)
    last = tl.load(indptr + row + 1)
    own = tl.load(src + row * H + head)
    total = tl.zeros((EB, CB), tl.float32)
    sloped = tl.zeros((EB, CB), tl.float32)
    dots = tl.zeros((EB,), tl.float32)
    for start in range(first, last, EB):
        entry = start + tl.arange(0, EB)
        live = entry < last
        towards = tl.load(indices + entry, live, 0).to(tl.int64)
        node = nodes + towards * 4 * H + head
        before = tl.load(node, live, 0.0) + own
        score = tl.where(before > 0, before, before * slope)
        power = tl.exp(score - tl.load(node + H, live, 0.0)) * tl.load(node + 2 * H, live, 0.0)
        weight = tl.where(live, power, 0.0)
        slow = tl.where(before > 0, weight, weight * slope)
        dots += slow * tl.load(node + 3 * H, live, 0.0)
        inside = live[:, None] & (cols < C)[None, :]
        value = tl.load(grad + towards[:, None] * grad_stride + place[None, :], inside, 0.0)
        total += value * weight[:, None]
        sloped += value * slow[:, None]
    values = tl.load(x + row * x_stride + place, cols < C, 0.0)
    score_grad = tl.sum(tl.sum(sloped, 0) * values, 0) - tl.sum(dots, 0)
    result = tl.sum(total, 0) + score_grad * tl.load(source + place, cols < C, 0.0)
    if dst_grad is not None:
        result += tl.load(dst_grad + row * H + head) * tl.load(target + place, cols < C, 0.0)
    tl.store(out + row * out_stride + place, result, cols < C)
    tl.store(src_grad + row * H + head, score_grad)
