"""In a loop of the user's own, the bits follow the losses that go backward."""

from __future__ import annotations

import pytest
import torch
import torch_geometric.nn as pyg

from halowire.pyg.attach import state_of
from halowire.wire import run_threads
from tests.support.pyg_case import place, seeded
from tests.support.pyg_models import two


@pytest.mark.parametrize("base", ["loss", "loss-per-second"])
def test_bits_follow_the_loss_in_a_loop_of_ones_own(base):
    """A loss that falls ever more slowly doubles the bits, on all workers in the same pass."""
    model, passes = seeded(lambda: two(pyg.SAGEConv)), 40

    def here(transport):
        data, own = place(transport, model, "sylvie-3d", {"rate.base": base})
        optimiser = torch.optim.SGD(own.parameters(), lr=0.05)
        for _ in range(passes):
            optimiser.zero_grad()
            data.mean(own(data.x, data.edge_index).square()).backward()
            optimiser.step()
        [exchange] = state_of(own).exchanges
        return exchange.policy.base.history

    first, second = run_threads(2, here)
    assert first == second and len(first) == passes
    assert base != "loss" or max(first) > 1


def test_passes_without_a_loss_keep_the_bits():
    def here(transport):
        data, own = place(transport, two(pyg.SAGEConv), "sylvie-3d")
        for _ in range(3):
            own(data.x, data.edge_index)
        [exchange] = state_of(own).exchanges
        return exchange.policy.base.history

    assert run_threads(2, here) == [[1, 1, 1]] * 2
