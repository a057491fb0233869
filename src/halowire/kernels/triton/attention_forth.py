"""Attention forward on a GPU: a running softmax, so that every edge is read once and no value of an edge is stored."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from halowire.kernels.triton.launches import edge_tile, launch


def attend(
    indptr: Tensor,
    indices: Tensor,
    x: Tensor,
    stride: int,
    src: Tensor,
    nodes: Tensor,
    slope: float,
    out: Tensor,
    positive: Tensor | None,
) -> None:
    """Write ``out``, ``positive`` where it is wanted, and ``nodes`` ``[n, 4, H]``, which holds ``dst`` already."""
    rows, heads = nodes.shape[0], nodes.shape[2]
    cols = x.shape[1] // heads
    launch(
        attend_kernel, (rows, heads), indptr, indices, x, stride, src, nodes, slope, out, out.stride(0), positive,
        0 if positive is None else positive.stride(0), H=heads, C=cols, **edge_tile(cols, most=4096),
    )  # fmt: skip


@triton.jit
def attend_kernel(
    indptr, indices, x, x_stride, src, nodes, slope, out, out_stride, positive, positive_stride,
    H: tl.constexpr, C: tl.constexpr, EB: tl.constexpr, CB: tl.constexpr,
):  # fmt: skip
    """One target and one head; ``EB`` edges at a time. With a larger score, the sums so far are scaled down."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    cols = tl.arange(0, CB)
    first = tl.load(indptr + row)
    last = tl.load(indptr + row + 1)
    node = nodes + row * 4 * H + head
    own = tl.load(node)
    largest = -float("inf")
    norm = 0.0
    share = 0.0
    total = tl.zeros((EB, CB), tl.float32)
    chosen = tl.zeros((EB, CB), tl.float32)
    for start in range(first, last, EB):
        entry = start + tl.arange(0, EB)
        live = entry < last
        source = tl.load(indices + entry, live, 0).to(tl.int64)
        score = tl.load(src + source * H + head, live, 0.0) + own
        score = tl.where(score > 0, score, score * slope)
        larger = tl.maximum(largest, tl.max(tl.where(live, score, -float("inf")), 0))
        power = tl.where(live, tl.exp(score - larger), 0.0)
        part = tl.where(score > 0, power, 0.0)
        back = tl.exp(largest - larger)
        inside = live[:, None] & (cols < C)[None, :]
        value = tl.load(x + source[:, None] * x_stride + head * C + cols[None, :], inside, 0.0)
        total = total * back + value * power[:, None]
        norm = norm * back + tl.sum(power, 0)
        share = share * back + tl.sum(part, 0)
        if positive is not None:
            chosen = chosen * back + value * part[:, None]
        largest = larger
    inverse = tl.where(norm == 0, 0.0, 1.0 / norm)
    place = head * C + cols
    tl.store(out + row * out_stride + place, tl.sum(total, 0) * inverse, cols < C)
    if positive is not None:
        tl.store(positive + row * positive_stride + place, tl.sum(chosen, 0) * inverse, cols < C)
    tl.store(node + H, tl.where(norm == 0, 0.0, largest))
    tl.store(node + 2 * H, inverse)
    tl.store(node + 3 * H, share * inverse)
