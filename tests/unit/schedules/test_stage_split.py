"""The splitter against brute force, and what it is given."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
import torch

from halowire.errors import InputError
from halowire.graph import block_model
from halowire.kernels import Csr
from halowire.layers import GCN, GCNII, SAGE, Shape
from halowire.partitioning import Shard, cut, partition
from halowire.schedules import measured_costs, parse_split, predicted_costs, split
from halowire.training import Config
from halowire.training.model_setup import build_model
from halowire.wire import Transport


def largest(costs: list[float], counts: list[int]) -> float:
    ends = [0, *itertools.accumulate(counts)]
    return max(sum(costs[a:b]) for a, b in itertools.pairwise(ends))


@pytest.mark.parametrize("seed", range(20))
def test_no_split_is_better(seed):
    draw = random.Random(seed)
    blocks = draw.randint(1, 9)
    costs = [draw.choice([1.0, 2.0, 5.0, draw.random()]) for _ in range(blocks)]
    for stages in range(1, blocks + 1):
        counts = split(costs, stages)
        assert len(counts) == stages and sum(counts) == blocks and min(counts) >= 1
        cuts = itertools.combinations(range(1, blocks), stages - 1)
        best = min(largest(costs, [b - a for a, b in itertools.pairwise((0, *cut, blocks))]) for cut in cuts)
        assert largest(costs, counts) == pytest.approx(best, rel=1e-12)


def test_equal_blocks_are_shared_evenly():
    assert split([1.0] * 32, 4) == [8, 8, 8, 8]
    assert max(split([1.0] * 33, 8)) == 5


def test_more_stages_than_blocks_are_refused():
    with pytest.raises(InputError, match="2 blocks cannot be split over 3 stages"):
        split([1.0, 1.0], 3)


def test_the_users_split():
    assert parse_split("8, 8,16", 3, 32) == [8, 8, 16]
    for text, words in (("8,8", "2 stages and 16 blocks"), ("8,0,24", "such as 8,8,16"), ("", "such as 8,8,16")):
        with pytest.raises(InputError, match=words):
            parse_split(text, 3, 32)


def test_predicted_costs_grow_with_what_a_block_does():
    costs = predicted_costs(GCNII(Shape(50, 16, 4, 6)), 1000, 8000, 50_000)
    assert len(costs) == 6 and costs[0] > costs[1] == costs[4] < costs[5]
    sage = predicted_costs(SAGE(Shape(50, 16, 4, 4)), 1000, 8000, 50_000)
    gcn = predicted_costs(GCN(Shape(50, 16, 4, 4)), 1000, 8000, 50_000)
    assert sage[1] > gcn[1] and gcn[3] < gcn[2]


def sparse_features(shard: Shard) -> Csr:
    rows, cols = (shard.x > shard.x.quantile(0.85)).nonzero(as_tuple=True)
    x = Csr.from_edges(rows, cols, *shard.x.shape, shard.x[rows, cols])
    assert x.nnz < 0.25 * shard.x.numel()
    return x


def test_what_is_prepared_once_in_a_run_is_not_measured(monkeypatch):
    config = Config().replace({"model.name": "gcn", "model.layers": 5, "model.hidden": 16})
    graph = block_model(300, 2400, 12, 4, seed=1)
    shard = cut(graph, partition(graph, 1))[0]
    model, x, transposed, counts = build_model(config.model, 12, 4, 0), sparse_features(shard), Csr.transpose, []
    monkeypatch.setattr(Csr, "transpose", lambda matrix: counts.append(1) or transposed(matrix))
    found = []
    for turns in (1, 3):
        monkeypatch.setattr("halowire.schedules.block_costs.TURNS", turns)
        counts.clear()
        measured_costs(model, replace(shard, x=x), Transport())
        found.append(len(counts))
    assert found[0] == found[1] > 0


@pytest.mark.parametrize("name", ["gcn", "sage", "gcnii", "resgcn"])
@pytest.mark.parametrize("sparse", [False, True])
def test_measured_costs_are_positive_and_leave_no_trace(name, sparse):
    config = Config().replace({"model.name": name, "model.layers": 5, "model.hidden": 16})
    graph = block_model(300, 2400, 12, 4, seed=1)
    shard = cut(graph, partition(graph, 1))[0]
    x = sparse_features(shard) if sparse else shard.x
    model = build_model(config.model, 12, 4, 0)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    costs = measured_costs(model, replace(shard, x=x), Transport())
    assert len(costs) == 5 and min(costs) > 0 and costs[1] == costs[2] == costs[3]
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, weights[key]) for key, value in model.state_dict().items())
