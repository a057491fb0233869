"""How a row of docs/coming-from-pyg.md is shown: on two and on three workers, and that it learns by coded recipes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

two_and_three = pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.slow)])
three_and_two = pytest.mark.parametrize("workers", [pytest.param(2, marks=pytest.mark.slow), 3])
"""One of the two is in the slow suite."""
CODED = ["halowire", "sylvie-a"]
STEPS = 12


def falling(model: nn.Module, loss_of: Callable[[], Tensor]) -> list[float]:
    """The losses of some steps of training."""
    optimiser, losses = torch.optim.Adam(model.parameters(), lr=0.01), []
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = loss_of()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    return losses
