"""The recommender of the examples equals a plain loop over the whole graph, and so do its metrics."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from halowire.wire import run_threads

EPOCHS = 4


def example():
    path = Path(__file__).parents[2] / "examples" / "recommender.py"
    spec = importlib.util.spec_from_file_location("recommender", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(recommender, layers: int) -> tuple[float, float, float]:
    """The same in plain PyG, with the metrics of every user by hand."""
    learnt, tested = recommender.interactions()
    nodes = recommender.USERS + recommender.ITEMS
    edge_index = torch.cat([learnt, learnt.flip(0)], 1)
    model = recommender.LightGCN(nodes, 16, layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for epoch in range(EPOCHS):
        generator = torch.Generator().manual_seed(epoch)
        negative = torch.randint(recommender.USERS, nodes, (learnt.shape[1],), generator=generator)
        out = model(edge_index)
        user, item, other = out[learnt[0]], out[learnt[1]], out[negative]
        values = -F.logsigmoid((user * (item - other)).sum(-1))
        loss = (values + 1e-3 * (user.square() + item.square() + other.square()).sum(-1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    out, recalls, gains = model(edge_index).detach(), [], []
    products = (out @ out.t()).tolist()
    for user in range(recommender.USERS):
        wanted = set(tested[1, tested[0] == user].tolist())
        known = set(learnt[1, learnt[0] == user].tolist())
        scores = {item: products[user][item] for item in range(recommender.USERS, nodes) if item not in known}
        best = sorted(scores, key=lambda item: -scores[item])[:10]
        if wanted:
            recalls.append(len(wanted.intersection(best)) / len(wanted))
            gain = sum(1 / math.log2(place + 2) for place, item in enumerate(best) if item in wanted)
            gains.append(gain / sum(1 / math.log2(place + 2) for place in range(min(len(wanted), 10))))
    return loss.item(), sum(recalls) / len(recalls), sum(gains) / len(gains)


@pytest.mark.parametrize(("layers", "parts"), [(0, 2), pytest.param(2, 2, marks=pytest.mark.slow), (2, 3)])
def test_loss_and_metrics_equal_those_of_plain_pyg(layers, parts):
    recommender = example()
    want = plain(recommender, layers)
    for found in run_threads(parts, lambda transport: recommender.train(layers, EPOCHS, transport)):
        assert found == pytest.approx(want, rel=1e-4)


def test_coded_rows_learn():
    recommender = example()
    _, recall, ndcg = run_threads(2, lambda transport: recommender.train(2, 15, transport, "halowire"))[0]
    _, recall_before, ndcg_before = run_threads(2, lambda transport: recommender.train(2, 1, transport))[0]
    assert recall > recall_before + 0.05
    assert ndcg > ndcg_before + 0.05
