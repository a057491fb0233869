"""The list of all of PyG's layers: equal to plain PyG on two and three workers, sorted or not, or refused."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import torch
from torch_geometric.nn import aggr, conv, models, norm

import halowire
from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.layer_tables import TABLES
from tests.support.list_case import ELSEWHERE, EQUAL, REFUSED, list_graph
from tests.support.pyg_case import compare, make_owner, run_part, run_plain

ROOT = Path(__file__).parents[2]
CASES = {name: case for table in TABLES.values() for name, case in table.items()}
RUNS = [
    pytest.param(name, sort, id=f"{name}, {'sorted' if sort else 'unsorted'}")
    for name, case in CASES.items()
    if case.outcome == EQUAL
    for sort in ((True,) if case.sorted_only else (False, True))
]
RECIPES = ["halowire", "sylvie-s", "sylvie-a", "varco", "half"]
STEPS = 3


def test_every_layer_of_pyg_is_listed_once():
    listed = {name.partition(" ")[0] for name in CASES}
    known = {name for package in (aggr, conv, models, norm) for name in package.__all__}
    assert known <= listed, "add what is missing to tests/support/pyg_layers.py and its like"
    assert sum(map(len, TABLES.values())) == len(CASES)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.outcome == ELSEWHERE])
def test_a_layer_of_another_test_has_it(name):
    file, _, function = CASES[name].words.partition("::")
    assert f"def {function}(" in (ROOT / file).read_text()


def check(name: str, sort: bool, parts: int) -> None:
    case, graph, owner = CASES[name], list_graph(sort), make_owner(parts)
    model = case.build()
    want = run_plain(model, graph, case.inputs, STEPS)
    double = {key: value.double() if value.is_floating_point() else value for key, value in graph.items()}
    exact = run_plain(copy.deepcopy(model).double(), double, case.inputs, STEPS)
    found = run_threads(parts, lambda transport: run_part(transport, model, graph, owner, case.inputs, STEPS))
    compare(found, want, exact=exact)


@pytest.mark.parametrize(("name", "sort"), [("SAGEConv lstm", True), ("SignedConv", False)])
def test_a_layer_equals_plain_pyg(name, sort):
    check(name, sort, 2)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize(("name", "sort"), RUNS)
def test_every_layer_equals_plain_pyg(name, sort, parts):
    check(name, sort, parts)


@pytest.mark.slow
@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.outcome == REFUSED])
def test_a_refusal_says_what_to_do(name, parts, sort):
    case, graph = CASES[name], list_graph(sort)
    model = case.build()
    with pytest.raises(InputError, match=re.escape(case.words)) as caught:
        run_threads(parts, lambda transport: run_part(transport, model, graph, make_owner(parts), case.inputs))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.outcome == EQUAL])
def test_every_layer_learns_by_coded_recipes(name, recipe):
    case, graph = CASES[name], list_graph(sort=True)
    model = case.build()

    def here(transport):
        data = cut_data(graph, make_owner(transport.size), transport)
        own, losses = halowire.distribute(copy.deepcopy(model), data, recipe), []
        optimiser = torch.optim.Adam(own.parameters(), lr=0.01)
        for _ in range(12):
            optimiser.zero_grad()
            loss = data.cross_entropy(own(*(data[name] for name in case.inputs)), data.y)
            loss.backward()
            optimiser.step()
            losses.append(float(loss))
        transport.settle()
        return losses

    losses = run_threads(2, here)[0]
    assert sum(losses[-3:]) < sum(losses[:3])
