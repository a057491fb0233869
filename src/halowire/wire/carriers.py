"""Carriers: of all workers of a machine that need a row of another machine, the one that the row is sent to.

The owner of the rows and every worker of the machine call this with the same lists, and so agree without a message.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def choose_carriers(wanted: Sequence[Tensor]) -> list[Tensor]:
    """The carrier of every row that the workers of a machine want of one owner, so that all carry as many as possible.

    ``wanted[j]`` are the ids of the rows that worker ``j`` needs, each once, int64. Returns for every one of these rows
    the number of its carrier, which is one of the workers that need the row. Rows that the same workers need are given
    out together: first those that only one needs, then, to the workers that carry least so far, those that more need.
    """
    rows, place = torch.unique(torch.cat(list(wanted)), return_inverse=True)
    places = torch.split(place, [ids.numel() for ids in wanted])
    needs = torch.zeros(rows.numel(), len(wanted), dtype=torch.bool)
    kind = torch.zeros(rows.numel(), dtype=torch.int64)
    for worker, own in enumerate(places):
        needs[own, worker] = True
        # Two rows stay of one kind as long as the same workers need them.
        kind = torch.unique(2 * kind + needs[:, worker], return_inverse=True)[1]
    order = torch.argsort(kind, stable=True)
    groups = torch.split(order, torch.bincount(kind).tolist())
    alike = [(needs[group[0]].nonzero().flatten(), group) for group in groups]
    carrier = torch.zeros(rows.numel(), dtype=torch.int64)
    carried = [0] * len(wanted)
    for readers, group in sorted(alike, key=lambda one: one[0].numel()):
        shares = even_shares([carried[reader] for reader in readers.tolist()], group.numel())
        carrier[group] = torch.repeat_interleave(readers, torch.tensor(shares))
        for reader, share in zip(readers.tolist(), shares, strict=True):
            carried[reader] += share
    return [carrier[own] for own in places]


def even_shares(loads: Sequence[int], count: int) -> list[int]:
    """How many of ``count`` rows each worker gets, so that the ``loads`` with them are as even as possible.

    >>> even_shares([5, 0, 1], 5)
    [0, 3, 2]
    """
    order = sorted(range(len(loads)), key=lambda worker: loads[worker])
    level, rest, sharing = 0, 0, len(order)
    while sharing:
        level, rest = divmod(sum(loads[worker] for worker in order[:sharing]) + count, sharing)
        if level >= loads[order[sharing - 1]]:
            break
        sharing -= 1
    shares = [0] * len(loads)
    for number, worker in enumerate(order[:sharing]):
        shares[worker] = level + (number < rest) - loads[worker]
    return shares
