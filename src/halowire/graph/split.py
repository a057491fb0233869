"""A seeded random split of the nodes: half to train on, a quarter each to validate and to test."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def random_split(
    num_nodes: int, rng: np.random.Generator, train: float = 0.5, val: float = 0.25
) -> tuple[Tensor, Tensor, Tensor]:
    """Masks (train, val, test), bool ``[num_nodes]``; what ``train`` and ``val`` leave over is tested on."""
    order = rng.permutation(num_nodes)
    first, second = round(train * num_nodes), round((train + val) * num_nodes)
    masks = []
    for chosen in (order[:first], order[first:second], order[second:]):
        mask = torch.zeros(num_nodes, dtype=torch.bool)
        mask[torch.from_numpy(chosen)] = True
        masks.append(mask)
    return masks[0], masks[1], masks[2]
