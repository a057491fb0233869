"""Normalisation of the adjacency, symmetric with self loops or as a mean, and its steps, which shards use as well."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels import Csr


def symmetric(adj: Csr) -> Csr:
    """``D^-1/2 (A + I) D^-1/2``, as PyG's ``gcn_norm``.

    ``D`` is the sum over the in-edges (a row of ``adj`` ``[N, N]``), self loop included; a zero degree scales to 0.
    Self loops are those of :func:`with_self_loops`.
    """
    scale = inverse_sqrt(symmetric_degree(adj))
    return scaled_by(with_self_loops(adj), scale, scale)


def mean(adj: Csr) -> Csr:
    """``w_ij / sum_j w_ij``: every row sums to 1; rows whose weights sum to 0 stay 0."""
    return scaled_by(adj, inverse(adj.degree()))


def with_self_loops(adj: Csr) -> Csr:
    """``A + I`` with exactly one self loop per row: the last one given, or one of weight 1 where there was none."""
    row, col = adj.row_index(), adj.indices.long()
    proper = row != col
    diagonal = torch.arange(adj.num_rows)
    rows = torch.cat([row[proper], diagonal])
    cols = torch.cat([col[proper], diagonal])
    weight = None if adj.weight is None else torch.cat([adj.weight[proper], _self_loop_weight(adj)])
    return Csr.from_edges(rows, cols, adj.num_rows, adj.num_cols, weight)


def symmetric_degree(adj: Csr) -> Tensor:
    """In-degree of every node for `symmetric`, its one self loop included, float32 ``[N]``."""
    row = adj.row_index().long()
    is_loop = row == adj.indices
    if adj.weight is None:
        return adj.degree() - torch.bincount(row[is_loop], minlength=adj.num_rows) + 1
    return adj.with_weight(adj.weight.masked_fill(is_loop, 0)).degree() + _self_loop_weight(adj)


def scaled_by(matrix: Csr, left: Tensor, right: Tensor | None = None) -> Csr:
    """``diag(left) matrix diag(right)`` for ``left`` ``[num_rows]`` and ``right`` ``[num_cols]``, or None for ones."""
    scale = left[matrix.row_index().long()]
    if right is not None:
        # The scales are multiplied first: their product is equal for (i, j) and (j, i), so that symmetry is kept.
        scale = scale * right[matrix.indices.long()]
    return matrix.with_weight(scale if matrix.weight is None else matrix.weight * scale)


def inverse(degree: Tensor) -> Tensor:
    """``1 / degree``, and 0 where the degree is 0."""
    return torch.where(degree > 0, 1 / degree, 0)


def inverse_sqrt(degree: Tensor) -> Tensor:
    """``degree^-1/2``, and 0 where the degree is 0."""
    return torch.where(degree > 0, degree.rsqrt(), 0)


def _self_loop_weight(adj: Csr) -> Tensor:
    """Weight of the one self loop that every node ends up with, float32 ``[N]``."""
    loop = torch.ones(adj.num_rows)
    if adj.weight is None:
        return loop
    row = adj.row_index().long()
    entry = (row == adj.indices).nonzero().squeeze(1)
    node = row[entry]
    # Several self loops of a node are adjacent here; writing only the last one makes the result independent of threads.
    last = torch.ones(node.numel(), dtype=torch.bool)
    last[:-1] = node[1:] != node[:-1]
    loop[node[last]] = adj.weight[entry[last]]
    return loop
