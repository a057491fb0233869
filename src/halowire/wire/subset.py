"""Shared random subsets: both ends of the wire derive them from the seed, so that no index is ever sent."""

from __future__ import annotations

import torch
from torch import Tensor

from halowire.kernels import row_keys

COLUMN_STREAM, ROW_STREAM = 101, 102


def column_subset(width: int, count: int, seed: int, epoch: int, layer: int) -> Tensor | None:
    """``count`` of ``width`` columns, ascending int64, the same for all nodes and workers; None for all of them.

    The columns with the smallest of ``width`` random keys: a uniform subset without replacement.
    """
    if count >= width:
        return None
    keys = row_keys(seed, epoch, layer, torch.arange(width), COLUMN_STREAM)
    return keys.argsort()[:count].sort().values


def sample_size(count: int, share: float) -> int:
    """How many of ``count`` rows that go to one peer travel: ``max(1, round(p m))``, none of none."""
    return min(count, max(1, round(share * count)))


def row_subset(
    ids: Tensor, counts: tuple[int, ...], share: float, seed: int, epoch: int
) -> tuple[Tensor, tuple[int, ...]]:
    """Positions of the sampled rows of a list grouped by peer, ascending, and how many each group keeps.

    ``ids`` are the original ids of the list, ``counts`` its groups. Of each group, the :func:`sample_size` rows with
    the smallest keys stay; owner and receiver hold the same list and so agree.
    """
    keys = row_keys(seed, epoch, 0, ids, ROW_STREAM)
    kept, sizes, start = [], [], 0
    for count in counts:
        size = sample_size(count, share)
        order = keys[start : start + count].argsort()[:size].sort().values
        kept.append(order + start)
        sizes.append(size)
        start += count
    return (torch.cat(kept) if kept else torch.empty(0, dtype=torch.int64)), tuple(sizes)
