"""The edges of a part, those into its own rows, and their order: that of the whole graph, or by the part's rows.

Some aggregations (LSTM, sort, set transformers) need edges that are sorted by target. A part numbers its rows in its
own way, so edges that are sorted in the whole graph are sorted anew by the part's rows; the edges into one row keep
their order.
"""

from __future__ import annotations

import torch
from torch import Tensor


def is_by_target(edge_index: Tensor) -> bool:
    """Whether the targets of ``edge_index`` ``[2, E]`` ascend."""
    return bool((edge_index[1, 1:] >= edge_index[1, :-1]).all())


def target_order(edge_index: Tensor) -> Tensor:
    """The order, int64 ``[E]``, that sorts edges by target and leaves the edges into one node as they are."""
    return torch.argsort(edge_index[1], stable=True)


def owned_edges(edge_index: Tensor, owner: Tensor, rank: int, places: Tensor) -> Tensor:
    """Which of the whole graph's edges ``[2, E]`` belong to part ``rank``, int64 ``[e]``.

    Args:
        edge_index: the edges of the whole graph.
        owner: the owner of every target, int64 ``[N]``.
        rank: the part.
        places: the part's own number of every target that it owns, int64 ``[N]``.
    """
    mine = (owner[edge_index[1]] == rank).nonzero()[:, 0]
    if not is_by_target(edge_index):
        return mine
    return mine[torch.argsort(places[edge_index[1, mine]], stable=True)]
