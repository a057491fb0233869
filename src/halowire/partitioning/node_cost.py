"""What a node costs its owner, as the weight by which partitioners make their parts alike."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from halowire.kernels import Csr

# Integer steps per unit of node weight (whose mean is 2): rounding stays far below the tolerance of partitioners.
WEIGHT_STEPS = 100
SLACK = 0.03
"""How far a part may exceed the mean weight, as in METIS's k-way partitioning."""


def node_weight(adj: Csr, edges: float = 1.0) -> Tensor:
    """What a node costs, float64 ``[N]``: ``w_v = 1 + a d_v / mean(d)`` with ``d_v`` the number of in-edges.

    Nodes cost dense products, edges cost aggregation. With the factor ``a = edges`` of 1, half of the total weight is
    nodes and half is edges, so parts of equal weight are near balance in both; with 0, only nodes are counted.
    """
    degree = adj.indptr.diff().double()
    if adj.nnz == 0:
        return torch.ones_like(degree)
    return 1.0 + edges * degree / degree.mean()


def integer_weight(adj: Csr, edges: float, limit: int) -> np.ndarray:
    """Node weights as positive integers with a sum below half of ``limit``, so that sums of them do not overflow."""
    weight = node_weight(adj, edges)
    steps = min(float(WEIGHT_STEPS), limit / 2 / float(weight.sum()))
    return np.asarray((weight * steps).round().clamp(min=1).to(torch.int64).numpy())
