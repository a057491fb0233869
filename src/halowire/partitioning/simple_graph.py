"""The simple undirected graph of an adjacency: what partitioners that count cut edges work on."""

from __future__ import annotations

import torch

from halowire.kernels import Csr


def simple_undirected(adj: Csr) -> Csr:
    """Both directions of every edge of ``adj`` ``[N, N]`` once, without self loops or weights."""
    row, col = adj.row_index(), adj.indices.to(torch.int64)
    proper = row != col
    row, col = row[proper], col[proper]
    both = Csr.from_edges(torch.cat([row, col]), torch.cat([col, row]), adj.num_rows, adj.num_rows)
    return both.distinct()
