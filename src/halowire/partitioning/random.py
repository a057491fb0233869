"""Random owners: equal node counts, no regard for edges; the baseline every other method must beat."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels import Csr


def random_owners(adj: Csr, parts: int, seed: int) -> Tensor:
    """Deal a seeded permutation of the nodes round-robin to the parts; int64 ``[N]``, counts differ by at most one."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(adj.num_rows, generator=generator)
    owner = torch.empty(adj.num_rows, dtype=torch.int64)
    owner[order] = torch.arange(adj.num_rows) % parts
    return owner
