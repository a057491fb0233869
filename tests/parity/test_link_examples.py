"""PyG's link-level examples on one node type, and models whose forward takes pairs: three steps equal plain PyG."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import halowire
from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.link_example_cases import CASES, AttractRepel, graph_of
from tests.support.pyg_case import assert_close, make_owner, seeded
from tests.support.worker_counts import CODED, falling


class Whole:
    """A whole graph under the names that the parts have."""

    def __init__(self, graph: dict[str, Tensor]) -> None:
        vars(self).update(graph)


def learn(own: nn.Module, data: Any, losses: Any, step: Any) -> tuple[list[Tensor], Tensor]:
    """The gradients of three steps, and the scores at the end."""
    kept, optimiser = [], torch.optim.SGD(own.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        step(own.train(), data, losses)[0].backward()
        kept += [value.grad.clone() for name, value in own.named_parameters() if not name.endswith("node_emb")]
        optimiser.step()
    with torch.no_grad():
        return kept, step(own.eval(), data, losses)[1]


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [*CASES, "labels and times, float64"])
def test_three_steps_equal_plain_pyg(name, workers):
    make, step = CASES[name.removesuffix(", float64")]
    double = name.endswith("float64")
    model, graph = seeded(make), graph_of(double)
    model = model.double() if double else model
    pairs = "train_edge_index" if name == "rgcn_link_pred.py" else "edge_label_index"
    owner = make_owner(workers)
    if pairs == "train_edge_index":  # each positive pair has a negative one of the same first node, and so owner
        graph["false_edge_index"] = torch.stack([graph[pairs][0], graph[pairs][1].flip(0)])
    want, scores = learn(copy.deepcopy(model), Whole(graph), F, step)

    def here(transport):
        data = cut_data(graph, owner, transport)
        found, given = learn(halowire.distribute(copy.deepcopy(model), data), data, data, step)
        transport.settle()
        return found, given, data.pair_rows[pairs][0]

    got = torch.full_like(scores, torch.nan)
    scale = max(float(value.abs().max()) for value in want)
    for found, given, rows in run_threads(workers, here):
        got[rows] = given
        for one, value in zip(found, want, strict=True):
            assert_close("gradient", one, value, floor=0.01 * scale)
    assert_close("scores", got, scores)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", CODED)
@pytest.mark.parametrize("name", CASES)
def test_an_example_learns_by_coded_recipes(name, recipe):
    make, step = CASES[name]
    model, graph = seeded(make), graph_of()
    if name == "rgcn_link_pred.py":
        graph["false_edge_index"] = torch.stack([graph["train_edge_index"][0], graph["train_edge_index"][1].flip(0)])

    def here(transport):
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data, recipe)
        losses = falling(own, lambda: step(own, data, data)[0])
        transport.settle()
        return losses

    first, second = run_threads(2, here)
    assert first == second and sum(first[-3:]) < sum(first[:3])


class Picky(AttractRepel):
    """Scores of some of the pairs."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor) -> Tensor:
        return super().forward(x, edge_index, edge_label_index[:, :4])


def test_scores_of_some_pairs_are_refused():
    def here(transport):
        data = cut_data(graph_of(), make_owner(2), transport)
        with pytest.raises(InputError, match="or one per pair that it is called with"):
            halowire.distribute(Picky(), data)
        transport.settle()

    run_threads(2, here)
