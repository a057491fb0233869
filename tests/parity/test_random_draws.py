"""Random numbers of nodes and edges in forward: the same in plain PyG and on any number of workers."""

from __future__ import annotations

import copy

import pytest
import torch

import halowire
from halowire.wire import run_threads
from tests.support.pyg_case import (
    NODES,
    compare,
    make_graph,
    make_owner,
    run_part,
    run_plain,
    seeded,
)
from tests.support.random_draw_models import Infomax, Noisy, Supervised


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
