"""Linear attention over all nodes: what SGFormer and Polynormer sum over the graph is summed over all workers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.errors import InputError
from halowire.pyg.model_pass import ModelPass
from halowire.pyg.seen import Seen

EPSILON = 1e-6


def sgformer(module: Any, passing: ModelPass, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """PyG's ``SGFormerAttention``: ``(q (k^T v) + N v) / (q sum(k) + N)`` with ``q`` and ``k`` of length 1.

    ``x`` is ``[1, n, F]``; ``k^T v``, ``sum(k)`` and the number of nodes ``N`` are sums over all workers.
    """
    shape = (*_one_graph(module, x), module.heads, module.head_channels)
    query, key = (_lengths_1(linear(x).view(shape)) for linear in (module.q, module.k))
    value = module.v(x).view(shape)
    if mask is not None:
        value = value.masked_fill(~mask[:, :, None, None], 0.0)
    product, total, count = _whole(passing, torch.einsum("blhm,blhd->bhmd", key, value), key.sum(1), x)
    above = torch.einsum("bnhm,bhmd->bnhd", query, product) + count * value
    below = torch.einsum("bnhm,bhm->bnh", query, total)[..., None] + count
    found: Tensor = (above / below).mean(2)
    return found


class OneGraph:
    """PyG's ``SGModule`` for one graph, whose rows need not be sorted by graph nor laid out as a dense batch.

    On a device both make the host wait in every pass. Whether there is one graph is looked up once, while ``batch`` is
    the same tensor, unchanged.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._single: Seen | None = None

    def __call__(self, x: Tensor, batch: Tensor) -> Tensor:
        """The rows of the last layer, ``[n, F]``."""
        module = self._module
        if self._single is None or not self._single.still(batch):
            if not batch.numel() or int(batch.max()) > 0:
                found: Tensor = type(module).forward(module, x, batch)
                return found
            self._single = Seen.now(batch)
        rows = x[None]
        for number, norm in enumerate(module.bns):
            before = rows
            rows = module.fcs[0](rows) if number == 0 else (module.attns[number - 1](rows, None) + before) / 2.0
            rows = F.dropout(module.activation(norm(rows)), p=module.dropout, training=module.training)
        return rows[0]


def polynormer(module: Any, passing: ModelPass, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """PyG's ``PolynormerAttention``: ``norm(q (k^T v) / q sum(k)) (h + beta)``, with sums over all workers.

    ``x`` is ``[1, n, F]``; ``q`` and ``k`` are sigmoids.
    """
    size = _one_graph(module, x)
    shape = (*size, module.head_channels, module.heads)
    key = module.k(x).sigmoid().view(shape)
    query = key if module.qk_shared else module.q(x).sigmoid().view(shape)
    value = module.v(x).view(shape)
    if mask is not None:
        value = value.masked_fill(~mask[:, :, None, None], 0.0)
    product, total, _ = _whole(passing, torch.einsum("bndh,bnmh->bdmh", key, value), key.sum(1), x)
    above = torch.einsum("bndh,bdmh->bnmh", query, product)
    below = torch.einsum("bndh,bdh->bnh", query, total)[:, :, None]
    out = module.lns((above / (below + EPSILON)).reshape(*size, -1)) * (module.h_lins(x) + module.beta)
    found: Tensor = module.dropout(module.lin_out(out).relu())
    return found


def _one_graph(module: Any, x: Tensor) -> tuple[int, int]:
    if x.shape[0] != 1:
        raise InputError(
            f"{type(module).__name__} attends within each of {x.shape[0]} graphs of a batch, which is not summed over "
            "the workers; train on one graph (batch=0 for all nodes)"
        )
    return x.shape[0], x.shape[1]


def _lengths_1(rows: Tensor) -> Tensor:
    rows = torch.where(rows == 0, EPSILON, rows)
    found: Tensor = rows / torch.linalg.norm(rows, ord=2, dim=-1, keepdim=True)
    return found


def _whole(passing: ModelPass, product: Tensor, total: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``product``, ``total`` and the number of rows of ``x`` ``[1, n, F]``, summed over all workers in one message."""
    sums = [product.reshape(-1), total.reshape(-1), x.new_full((1,), x.shape[1])]
    first, second, count = torch.split(passing.whole_sum(torch.cat(sums)), [part.numel() for part in sums])
    return first.view_as(product), second.view_as(total), count.detach()
