"""Weights outside of the distributed model, before or behind it, get the gradients of the whole graph."""

from __future__ import annotations

import contextlib
import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

import halowire
from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import CLASSES, FEATURES, assert_close, make_graph, place, seeded
from tests.support.pyg_models import two


def loss_of(model, head, mask, graph, mean):
    return mean(head(model(graph.x * mask.sigmoid(), graph.edge_index)).square())


def make():
    return two(pyg.SAGEConv), nn.Linear(CLASSES, 5), nn.Parameter(torch.randn(FEATURES))


@pytest.mark.parametrize("workers", [2, 3])
def test_a_head_and_a_learnt_mask_learn_as_in_one_process(workers):
    """Three steps of training are equal, element by element."""
    plain = seeded(make)

    class Whole:
        x, edge_index = make_graph()["x"], make_graph()["edge_index"]

    def steps(parts, graph, mean):
        model, head, mask = parts
        weights = [*model.parameters(), *head.parameters(), mask]
        optimiser = torch.optim.SGD(weights, lr=0.1)
        for _ in range(3):
            optimiser.zero_grad()
            loss_of(model, head, mask, graph, mean).backward()
            optimiser.step()
        return [weight.detach() for weight in weights]

    want = steps(copy.deepcopy(plain), Whole, torch.mean)

    def here(transport):
        model, head, mask = copy.deepcopy(plain)
        data, model = place(transport, model)
        return steps((model, head, mask), data, data.mean)

    for found in run_threads(workers, here):
        for got, value in zip(found, want, strict=True):
            assert_close("weight", got, value)


def test_a_head_that_differs_between_workers_is_refused():
    def here(transport):
        data, model = place(transport, seeded(make)[0])
        head = nn.Parameter(torch.full((CLASSES, 5), float(transport.rank)))
        with pytest.raises(InputError, match="manual_seed"):
            data.mean((model(data.x, data.edge_index) @ head).square())

    run_threads(2, here)


def test_a_loss_of_other_weights_on_other_workers_is_refused():
    def here(transport):
        data, model = place(transport, seeded(make)[0])
        head = nn.Parameter(torch.ones(CLASSES))
        out = model(data.x, data.edge_index)
        with pytest.raises(InputError, match="same code"):
            data.mean((out * head if transport.rank else out).square())

    run_threads(2, here)


def test_learnt_rows_of_nodes_keep_their_own_gradients():
    """A tensor with one row per node belongs to the node's worker, and is not summed."""
    model, graph = seeded(make)[0], make_graph()
    rows = torch.zeros_like(graph["x"]).requires_grad_()
    copy.deepcopy(model)(graph["x"] + rows, graph["edge_index"]).square().mean().backward()
    want = rows.grad

    def here(transport):
        data, own = place(transport, model)
        part = torch.zeros_like(data.x).requires_grad_()
        data.mean(own(data.x + part, data.edge_index).square()).backward()
        return data.rows, part.grad

    for places, grad in run_threads(2, here):
        assert_close("gradient", grad, want[places])


def test_a_mask_of_the_nodes_that_was_drawn_alike_is_refused_and_the_way_out_is_right():
    """Parts of one size draw the same rows for other nodes; rows of the whole graph's are told from one weight."""
    model, graph = seeded(make)[0], make_graph()
    owner = torch.arange(len(graph["x"])) % 2
    whole = seeded(lambda: torch.randn(len(graph["x"]), 1)).requires_grad_()
    copy.deepcopy(model)(graph["x"] * whole.sigmoid(), graph["edge_index"]).square().mean().backward()

    def here(transport):
        data = cut_data(graph, owner, transport)
        own = halowire.distribute(copy.deepcopy(model), data)
        grads = []
        for values in (torch.ones(data.num_nodes, 1).cumsum(0), whole.detach()[data.rows]):
            mask = nn.Parameter(values)
            with pytest.raises(InputError, match=r"data\.rows") if not grads else contextlib.nullcontext():
                data.mean(own(data.x * mask.sigmoid(), data.edge_index).square()).backward()
            grads.append(mask.grad)
        return data.rows, grads[1]

    for places, grad in run_threads(2, here):
        assert_close("gradient", grad, whole.grad[places])
