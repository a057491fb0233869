"""The rows of every part, and the rows of other parts that it reads: its halo."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels import Csr


def group_by_owner(owner: Tensor, num_parts: int) -> list[Tensor]:
    """Graph rows of every part, ascending; ``num_parts`` int64 tensors."""
    order = torch.argsort(owner, stable=True)
    return list(torch.split(order, torch.bincount(owner, minlength=num_parts).tolist()))


def halo_of(adj: Csr, owner: Tensor, rows: Tensor, part: int) -> Tensor:
    """Graph rows that the ``rows`` of ``part`` read and that ``part`` does not own, int64 ``[h]``.

    They are ordered by owner, and by graph row within an owner.
    """
    needed = torch.zeros(adj.num_cols, dtype=torch.bool)
    needed[adj.select_rows(rows).indices.long()] = True
    needed &= owner != part
    halo = needed.nonzero().flatten()
    return halo[torch.argsort(owner[halo], stable=True)]
