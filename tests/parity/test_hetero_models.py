"""A distributed model of several node types equals plain PyG, element by element, also after three steps."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

import halowire
from halowire.pyg.hetero_data import cut_hetero
from halowire.wire import Transport, run_threads
from tests.support.hetero_case import (
    MODELS,
    build_hetero,
    compare_hetero,
    make_hetero,
    make_owners,
    rounding_of,
    run_part,
    run_plain,
)
from tests.support.hetero_examples import EXAMPLES, build_example
from tests.support.pyg_case import assert_close

QUICK = [("HeteroConv GCN, GAT, SAGE", 3, False), ("HGTConv", 2, True), ("HANConv", 3, False), ("by hand", 2, False)]


def check(name: str, parts: int, sort: bool) -> None:
    data, owner = make_hetero(sort), make_owners(parts)
    model = build_example(name, data) if name in EXAMPLES else build_hetero(name)
    want = run_plain(model, data)
    found = run_threads(parts, lambda transport: run_part(transport, model, data, owner))
    compare_hetero(found, want, rounding_of(model, data, want))


@pytest.mark.parametrize(("name", "parts", "sort"), QUICK)
def test_parts_equal_the_whole(name, parts, sort):
    check(name, parts, sort)


@pytest.mark.slow
@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("name", [*MODELS, *EXAMPLES])
def test_every_model_on_any_number_of_parts(name, parts, sort):
    check(name, parts, sort)


def part_here(rank: int, name: str) -> dict[str, object]:
    transport = Transport()
    return run_part(transport, build_hetero(name), make_hetero(), make_owners(transport.size))


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_real_workers_equal_the_whole(on_workers, workers):
    name = "to_hetero SAGE"
    model, data = build_hetero(name), make_hetero()
    want = run_plain(model, data)
    compare_hetero(on_workers(workers, part_here, name), want, rounding_of(model, data, want))


def learnt(recipe: str, name: str) -> None:
    model, data, owner = build_hetero(name), make_hetero(), make_owners(2)
    for part in run_threads(2, lambda transport: run_part(transport, model, data, owner, recipe, steps=40, adam=True)):
        assert torch.isfinite(part["losses"][-1])
        assert part["losses"][-1] < 0.8 * part["losses"][0]


def test_coded_rows_learn():
    learnt("halowire", "HeteroConv SAGE")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["halowire", "sylvie-s", "sylvie-a", "varco", "bns", "half", "two-levels"])
@pytest.mark.parametrize("name", ["HeteroConv SAGE", "HGTConv", "HANConv", "to_hetero GAT"])
def test_every_recipe_learns(recipe, name):
    learnt(recipe, name)


@pytest.mark.parametrize("parts", [2, 3])
def test_an_index_of_nodes_of_a_type_is_translated(parts):
    """The loss of ``data["paper"].train_idx``, as the mask's, and its gradients."""
    data, owner = make_hetero(), make_owners(parts)
    index = data["paper"].train_mask.nonzero()[:, 0].flip(0)
    data["paper"].train_idx = index
    model = build_hetero("HeteroConv SAGE")
    plain = copy.deepcopy(model)
    F.cross_entropy(plain(data.x_dict, data.edge_index_dict)[index], data["paper"].y[index]).backward()

    def here(transport):
        part = cut_hetero(data, owner, transport)
        own = halowire.distribute(copy.deepcopy(model), part)
        rows = part["paper"].train_idx
        part.cross_entropy(own(part.x_dict, part.edge_index_dict)[rows], part["paper"].y[rows]).backward()
        assert part.metadata() == data.metadata()
        transport.settle()
        return {name: value.grad for name, value in own.named_parameters()}

    want = {name: value.grad for name, value in plain.named_parameters()}
    scale = max(float(grad.abs().max()) for grad in want.values() if grad is not None)
    for found in run_threads(parts, here):
        for name, grad in want.items():
            if grad is not None:
                assert_close(name, found[name], grad, floor=0.01 * scale)
