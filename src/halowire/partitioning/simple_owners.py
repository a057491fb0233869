"""Owners without a search for a small cut: dealt at random, or ranges of the node order of equal weight."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels import Csr


def random_owners(adj: Csr, parts: int, seed: int) -> Tensor:
    """Deal a seeded permutation of the nodes round-robin to the parts; int64 ``[N]``, counts differ by at most one.

    Edges are not looked at: this is the baseline that every other method must beat.
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(adj.num_rows, generator=generator)
    owner = torch.empty(adj.num_rows, dtype=torch.int64)
    owner[order] = torch.arange(adj.num_rows) % parts
    return owner


def range_owners(adj: Csr, parts: int) -> Tensor:
    """Split ``0..N-1`` into ``parts`` non-empty ranges of near-equal weight; int64 ``[N]``, ascending.

    This takes no time, and the cut is small where neighbours have nearby ids (crawls, sorted data).
    """
    total = torch.cumsum(node_weight(adj), 0)
    target = total[-1] * torch.arange(1, parts, dtype=torch.float64) / parts
    cuts = torch.searchsorted(total, target, right=True)
    # A hub can swallow several targets: every cut must leave a node for each part before and after it.
    index = torch.arange(parts - 1)
    cuts = torch.cummax(cuts - index, 0).values + index if parts > 1 else cuts
    cuts = cuts.clamp(min=index + 1, max=adj.num_rows - parts + 1 + index)
    return torch.bucketize(torch.arange(adj.num_rows), cuts, right=True)


def node_weight(adj: Csr) -> Tensor:
    """What a node costs its owner, float64 ``[N]``: ``w_v = 1 + d_v / mean(d)`` with ``d_v`` the number of in-edges.

    Nodes cost dense products, edges cost aggregation; half of the total weight is nodes and half is edges, so parts of
    equal weight are near balance in both.
    """
    degree = adj.indptr.diff().double()
    if adj.nnz == 0:
        return torch.ones_like(degree)
    return 1.0 + degree / degree.mean()
