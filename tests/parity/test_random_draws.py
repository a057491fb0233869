"""Random numbers of nodes and edges in forward: the same in plain PyG and on any number of workers."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

import halowire
from halowire.wire import run_threads
from tests.support.pyg_case import (
    CLASSES,
    FEATURES,
    NODES,
    compare,
    make_graph,
    make_owner,
    run_part,
    run_plain,
    seeded,
)


class Noisy(nn.Module):
    """Noise on the features of nodes, and random weights of edges."""

    def __init__(self) -> None:
        super().__init__()
        self.random = halowire.Random(seed=3)
        self.first, self.second = pyg.SAGEConv(FEATURES, 8), pyg.GCNConv(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(x + self.random.nodes(edge_index, x.size(0), x.size(1)), edge_index)
        return self.second(h, edge_index, self.random.edges(edge_index)[:, 0])


class Infomax(nn.Module):
    """The corruption of Deep Graph Infomax: the rows of all nodes in a random order."""

    def __init__(self) -> None:
        super().__init__()
        self.random = halowire.Random(seed=3)
        self.begin, self.conv = nn.Linear(FEATURES, 8), pyg.SAGEConv(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.begin(x)
        return self.conv(h, edge_index) - 2 * self.conv(self.random.shuffled(h, edge_index), edge_index)


class Supervised(nn.Module):
    """SuperGAT, and scores of its negative pairs that are added up at both ends."""

    def __init__(self) -> None:
        super().__init__()
        self.random = halowire.Random(seed=3)
        self.begin = nn.Linear(FEATURES, 8)
        self.conv = pyg.SuperGATConv(8, CLASSES, attention_type="SD", edge_sample_ratio=1.0)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.begin(x)
        row, col = negative = self.random.negatives(edge_index, x.size(0), 2)
        score = (h[row] * h[col]).sum(-1).sigmoid()
        sums = x.new_zeros(x.size(0)).index_add(0, col, score).index_add(0, row, score)
        return self.conv(h, edge_index, negative) + sums[:, None]


@pytest.mark.parametrize("parts", [pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("make", [Noisy, Infomax, Supervised])
def test_draws_equal_those_of_plain_pyg(make, parts):
    model, graph, owner, names = seeded(make), make_graph(), make_owner(parts), ("x", "edge_index")
    want = run_plain(model, graph, names)
    compare(run_threads(parts, lambda transport: run_part(transport, model, graph, owner, names)), want)


def test_draws_are_new_in_every_pass_uniform_and_follow_the_seed():
    edge_index = make_graph()["edge_index"]
    first, again, other = halowire.Random(1), halowire.Random(1), halowire.Random(2)
    drawn = first.nodes(edge_index, 4000, 2)
    assert torch.equal(drawn, again.nodes(edge_index, 4000, 2))
    for different in (first.nodes(edge_index, 4000, 2), other.nodes(edge_index, 4000, 2), copy.deepcopy(drawn).flip(1)):
        assert not torch.equal(drawn, different)
    assert 0 <= float(drawn.min()) < 0.01
    assert 0.99 < float(drawn.max()) < 1
    assert abs(float(drawn.mean()) - 0.5) < 0.02
    assert sorted(first.shuffled(torch.arange(NODES), edge_index).tolist()) == list(range(NODES))
    assert int(first.negatives(edge_index, NODES, 8)[0].max()) > 0.9 * NODES
