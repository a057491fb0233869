"""What a node costs its owner: one number that stands for the node and its edges together."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels import Csr


def node_weight(adj: Csr) -> Tensor:
    """Combined cost of every node, float64 ``[N]``: ``w_v = 1 + d_v / mean(d)`` with ``d_v`` the number of in-edges.

    Nodes cost dense products, edges cost aggregation; half of the total weight is nodes and half is edges, so parts of
    equal weight are near balance in both.
    """
    degree = adj.indptr.diff().double()
    if adj.nnz == 0:
        return torch.ones_like(degree)
    return 1.0 + degree / degree.mean()
