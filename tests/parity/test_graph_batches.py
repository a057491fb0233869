"""Many graphs in one batch, several feature sets on one graph, and linear attention over all nodes."""

from __future__ import annotations

import copy

import pytest
import torch

import halowire
from halowire.pyg.shard_data import cut_data
from halowire.wire import Transport, run_threads
from tests.support.graph_batch_cases import CASES, graph_of
from tests.support.pyg_case import (
    compare,
    make_owner,
    run_part,
    run_plain,
    seeded,
)


@pytest.mark.parametrize("parts", [pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("name", CASES)
def test_equal_to_plain_pyg(name, parts):
    make, names = CASES[name]
    model, graph, owner = seeded(make), graph_of(name), make_owner(parts)
    want = run_plain(model, graph, names)
    compare(run_threads(parts, lambda transport: run_part(transport, model, graph, owner, names)), want)


@pytest.mark.parametrize("name", ["GraphNorm", "GCNConv over time", "SGFormer"])
def test_coded_rows_learn(name):
    make, names = CASES[name]
    model, graph = seeded(make), graph_of(name)

    def work(transport: Transport) -> list[float]:
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data, "halowire")
        optimizer = torch.optim.Adam(own.parameters(), lr=0.05)
        losses = []
        for _ in range(15):
            optimizer.zero_grad()
            loss = data.mean((own(*(getattr(data, key) for key in names)) + 1).square())
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        transport.drain()
        return losses

    losses = run_threads(2, work)[0]
    assert losses[-1] < 0.8 * losses[0]
