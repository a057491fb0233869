"""Contiguous ranges of the node order: good where neighbours have nearby ids (crawls, sorted data), and instant."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels import Csr
from halowire.partitioning.weight import node_weight


def range_owners(adj: Csr, parts: int) -> Tensor:
    """Split ``0..N-1`` into ``parts`` non-empty ranges of near-equal weight; int64 ``[N]``, ascending."""
    total = torch.cumsum(node_weight(adj), 0)
    target = total[-1] * torch.arange(1, parts, dtype=torch.float64) / parts
    cuts = torch.searchsorted(total, target, right=True)
    # A hub can swallow several targets: every cut must leave a node for each part before and after it.
    index = torch.arange(parts - 1)
    cuts = torch.cummax(cuts - index, 0).values + index if parts > 1 else cuts
    cuts = cuts.clamp(min=index + 1, max=adj.num_rows - parts + 1 + index)
    return torch.bucketize(torch.arange(adj.num_rows), cuts, right=True)
