"""Weights that drift apart between the workers are refused, in training and in evaluation."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

import halowire
from halowire.errors import InputError
from halowire.pyg.hetero_data import cut_hetero
from halowire.pyg.same_weights import digest
from halowire.wire import run_threads
from tests.support.hetero_case import build_hetero, make_hetero, make_owners
from tests.support.pyg_case import CLASSES, place, seeded
from tests.support.pyg_models import two
from tests.support.worker_counts import two_and_three


def change(model, rank):
    with torch.no_grad():
        next(model.parameters())[0] += 1e-3 * rank


def step(data, model, head=None):
    out = model(data.x, data.edge_index)
    data.mean((out if head is None else head(out)).square()).backward()


@pytest.mark.parametrize("workers", [2, 3])
def test_weights_that_were_drawn_anew_are_refused_in_backward(workers):
    """All workers refuse, and the way out for the usual causes is told."""

    def here(transport):
        data, model = place(transport, seeded(lambda: two(pyg.SAGEConv)))
        step(data, model)
        change(model, transport.rank)
        with pytest.raises(InputError, match=r"no longer the same.*reset_parameters.*data\.mean"):
            step(data, model)

    run_threads(workers, here)


@two_and_three
def test_a_best_state_of_each_worker_is_refused_in_evaluation(workers):
    def here(transport):
        data, model = place(transport, seeded(lambda: two(pyg.SAGEConv)))
        with torch.no_grad():
            data.mean(model(data.x, data.edge_index).square())
            change(model, transport.rank)
            with pytest.raises(InputError, match="no longer the same"):
                data.mean(model(data.x, data.edge_index).square())

    run_threads(workers, here)


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("what", ["nodes", "edges"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])
def test_a_state_that_one_worker_loads_is_refused_where_outputs_are_gathered(workers, what, mode):
    """Without a loss too: the rows that are put together would be those of two models."""

    def here(transport):
        data, model = place(transport, seeded(lambda: two(pyg.SAGEConv)))
        with mode():
            out = model.eval()(data.x, data.edge_index)
            values = out if what == "nodes" else data.edge_index
            data.gather(values)
            if transport.rank == 0:
                model.load_state_dict({name: value + 1 for name, value in model.state_dict().items()})
            with pytest.raises(InputError, match="no longer the same"):
                data.gather(values)

    run_threads(workers, here)


def test_a_state_that_one_worker_loads_is_refused_on_graphs_of_several_types():
    def here(transport):
        data = cut_hetero(make_hetero(), make_owners(2), transport)
        model = halowire.distribute(build_hetero("HeteroConv SAGE"), data).eval()
        rows = model(data.x_dict, data.edge_index_dict)
        data.gather(rows)
        change(model, transport.rank)
        with pytest.raises(InputError, match="no longer the same"):
            data.gather(rows)

    run_threads(2, here)


def test_a_head_outside_of_the_model_is_compared_too():
    first = seeded(lambda: nn.Linear(CLASSES, 3))

    def here(transport):
        data, model = place(transport, seeded(lambda: two(pyg.SAGEConv)))
        head = copy.deepcopy(first)
        step(data, model, head)
        change(head, transport.rank)
        with pytest.raises(InputError, match="no longer the same"):
            step(data, model, head)

    run_threads(2, here)


def test_what_rounding_changes_is_let_pass():
    """Machines that round otherwise have other bits, and the run goes on."""

    def here(transport):
        data, model = place(transport, seeded(lambda: two(pyg.SAGEConv)))
        with torch.no_grad():
            for value in model.parameters():
                value.mul_(1 + 1e-7 * transport.rank)
        step(data, model)

    run_threads(2, here)


def test_every_bit_is_in_the_digest():
    weights = [
        torch.randn(5),
        torch.randn(3, 3).double(),
        torch.randn(7).bfloat16(),
        torch.randn(2, dtype=torch.cfloat),
    ]
    here = torch.device("cpu")
    said = digest(weights, here)
    for place_, weight in enumerate(weights):
        other = [value.clone() for value in weights]
        other[place_].view(-1)[-1] += 1 if weight.is_complex() else 2.0**-6
        assert not torch.equal(digest(other, here), said)
