"""Normalisation of the whole graph's adjacency, before it is cut: symmetric with self loops, and mean."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels import Csr


def symmetric(adj: Csr) -> Csr:
    """``D^-1/2 (A + I) D^-1/2``, as PyG's ``gcn_norm``.

    Nodes without a self loop get one of weight 1; a node that has one keeps its weight (the last of several).
    ``D`` is the sum over the in-edges (a row of ``adj`` ``[N, N]``), self loop included; a zero degree scales to 0.
    """
    row, col, weight = adj.row_index().long(), adj.indices, adj.weight
    plain = row != col
    if not bool(plain.all()):
        row, col = row[plain], col[plain]
        weight = None if weight is None else weight[plain]
    # rows stay sorted: an entry moves back by the self loops of earlier rows, and by its own row's if that comes first
    place = torch.arange(row.numel()) + row + (col > row)
    loop_place = (
        torch.ones(row.numel() + adj.num_rows, dtype=torch.bool).index_fill_(0, place, False).nonzero().squeeze(1)
    )
    indptr = torch.zeros_like(adj.indptr)
    torch.cumsum(torch.bincount(row, minlength=adj.num_rows) + 1, 0, out=indptr[1:])
    indices = torch.empty(row.numel() + adj.num_rows, dtype=col.dtype)
    indices[place] = col
    indices[loop_place] = torch.arange(adj.num_rows, dtype=col.dtype)
    scale = inverse_sqrt(symmetric_degree(adj))
    # the product of the two scales first: it is the same for (i, j) and (j, i), so a symmetric matrix stays symmetric
    product = scale[row] * scale[col.long()]
    scaled = torch.empty(indices.numel())
    scaled[place] = product if weight is None else weight * product
    scaled[loop_place] = _self_loop_weight(adj) * (scale * scale)
    return Csr(indptr, indices, scaled, adj.num_cols)


def symmetric_degree(adj: Csr) -> Tensor:
    """In-degree of every node for `symmetric`, its one self loop included, float32 ``[N]``."""
    row = adj.row_index().long()
    is_loop = row == adj.indices
    if adj.weight is None:
        return adj.degree() - torch.bincount(row[is_loop], minlength=adj.num_rows) + 1
    return adj.with_weight(adj.weight.masked_fill(is_loop, 0)).degree() + _self_loop_weight(adj)


def mean(adj: Csr) -> Csr:
    """``w_ij / sum_j w_ij``: every row sums to 1; rows whose weights sum to 0 stay 0."""
    degree = adj.degree()
    inverse = torch.where(degree > 0, 1 / degree, 0)[adj.row_index().long()]
    return adj.with_weight(inverse if adj.weight is None else adj.weight * inverse)


def inverse_sqrt(degree: Tensor) -> Tensor:
    """``degree^-1/2``, and 0 where the degree is 0."""
    return torch.where(degree > 0, degree.rsqrt(), 0)


def _self_loop_weight(adj: Csr) -> Tensor:
    """Weight of the one self loop every node ends up with, float32 ``[N]``."""
    loop = torch.ones(adj.num_rows)
    if adj.weight is None:
        return loop
    row = adj.row_index().long()
    entry = (row == adj.indices).nonzero().squeeze(1)
    node = row[entry]
    # duplicates are adjacent; naming the last one keeps the assignment deterministic
    last = torch.ones(node.numel(), dtype=torch.bool)
    last[:-1] = node[1:] != node[:-1]
    loop[node[last]] = adj.weight[entry[last]]
    return loop
