"""The torch twin of graph attention: the same sums, edge by edge."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.kernels.csr import Csr


def attend(
    matrix: Csr, x: Tensor, src: Tensor, dst: Tensor, slope: float, out: Tensor, positive: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor]:
    """``out``, ``positive`` and ``nodes``; see `halowire.kernels.attend`."""
    row, col, heads = matrix.row_index(), matrix.indices.long(), src.shape[1]
    score = F.leaky_relu(src[col] + dst[row], slope)
    places = row[:, None].expand_as(score)
    largest = torch.zeros_like(dst).scatter_reduce(0, places, score, "amax", include_self=False)
    power = (score - largest[row]).exp()
    sums = torch.zeros_like(dst).index_add(0, row, power)
    inverse = torch.where(sums == 0, sums, 1 / sums)
    weight = power * inverse[row]
    chosen = weight * (score > 0)
    share = torch.zeros_like(dst).index_add(0, row, chosen)
    values = x[col].view(col.numel(), heads, x.shape[1] // heads)
    _sum_rows(weight, values, row, out)
    if positive is not None:
        _sum_rows(chosen, values, row, positive)
    return out, positive, torch.stack([dst, largest, inverse, share], 1)


def attend_targets(grad: Tensor, out: Tensor, positive: Tensor, nodes: Tensor, slope: float) -> tuple[Tensor, Tensor]:
    """The gradient of ``dst``, and ``nodes`` with ``<grad, out>`` in the last place."""
    shape = (grad.shape[0], nodes.shape[2], grad.shape[1] // nodes.shape[2])
    dot = (grad * out).view(shape).sum(2)
    part = (grad * positive).view(shape).sum(2)
    return (1 - slope) * (part - dot * nodes[:, 3]), torch.stack([*nodes[:, :3].unbind(1), dot], 1)


def attend_sources(
    transposed: Csr,
    grad: Tensor,
    x: Tensor,
    src: Tensor,
    dst_grad: Tensor | None,
    nodes: Tensor,
    slope: float,
    scores: tuple[Tensor, Tensor],
    out: Tensor,
) -> tuple[Tensor, Tensor]:
    """Gradients of ``x`` and ``src`` of the rows of ``transposed``."""
    row, col, heads = transposed.row_index(), transposed.indices.long(), src.shape[1]
    dst, largest, inverse, dot = nodes[col].unbind(1)
    before = src[row] + dst
    weight = (F.leaky_relu(before, slope) - largest).exp() * inverse
    values = grad[col].view(col.numel(), heads, x.shape[1] // heads)
    _sum_rows(weight, values, row, out)
    own = x.reshape(x.shape[0], heads, x.shape[1] // heads)
    score_grad = weight * ((values * own[row]).sum(2) - dot) * torch.where(before > 0, 1.0, slope)
    src_grad = torch.zeros_like(src).index_add(0, row, score_grad)
    extra = src_grad[:, :, None] * scores[0].detach().view(heads, -1)
    if dst_grad is not None:
        extra = extra + dst_grad[:, :, None] * scores[1].detach().view(heads, -1)
    return out.add_(extra.reshape(out.shape)), src_grad


def _sum_rows(weight: Tensor, values: Tensor, row: Tensor, out: Tensor) -> None:
    """``out[row_e] = sum of weight_e values_e``, head by head; ``values`` ``[E, H, C]``."""
    out.zero_().index_add_(0, row, (weight[:, :, None] * values).reshape(row.numel(), out.shape[1]))
