"""Interactions of users and items, as PyG's ``LightGCN`` learns them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.support.pyg_case import NODES, make_graph

USERS, PAIRS = 40, 160


def interactions() -> tuple[dict[str, Any], Tensor, Tensor]:
    """The graph, pairs that are positive and, by user, pairs that are negative; some nodes are named often."""
    generator = torch.Generator().manual_seed(3)
    users = torch.randint(USERS, (PAIRS,), generator=generator)
    items, others = (torch.randint(USERS, NODES - 5, (PAIRS,), generator=generator) for _ in range(2))
    graph = make_graph()
    return {"edge_index": graph["edge_index"]}, torch.stack([users, items]), torch.stack([users, others])
