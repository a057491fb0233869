"""Models that are called with what no trial on another graph can have: refused with what to call instead."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg

import halowire
from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import CLASSES, FEATURES, NODES, assert_close, make_graph, make_owner, seeded

MASK = torch.arange(NODES) % 3 == 0
LABELS = torch.arange(NODES) % CLASSES
GRAPH = make_graph() | {"y": LABELS, "train_mask": MASK, "train_idx": MASK.nonzero()[:, 0]}
GRAPH |= {"neg_edge_index": GRAPH["edge_index"].flip(0)}


def smoother():
    return pyg.CorrectAndSmooth(2, 0.8, 2, 0.7, autoscale=False)


WRONG = {
    "numbers of rows": (lambda: pyg.LabelPropagation(2, 0.9), r"call it with a mask of the nodes",
                        lambda model, data: model(data.y, data.edge_index, data.train_idx)),
    "some of the rows": (smoother, r"call it with all rows, and pick them in the forward", lambda model, data: model(
        data.x[:, :CLASSES], data.y[data.train_mask], data.train_mask, data.edge_index)),
    "a function": (smoother, r"put the whole call into the forward of a module", lambda model, data: model.correct(
        data.x[:, :CLASSES], data.y[data.train_mask], data.train_mask, data.edge_index)),
    "pairs as edges": (lambda: pyg.SignedGCN(FEATURES, 8, 2), r"put all edges into edge_index, with a tensor",
                       lambda model, data: model(data.x, data.edge_index, data.neg_edge_index)),
    "no edges": (lambda: pyg.PMLP(FEATURES, 8, CLASSES, 2), r"give it edge_index in every call",
                 lambda model, data: model(data.x)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_such_calls_are_refused_with_what_to_call(name):
    make, words, call = WRONG[name]
    model = seeded(make)

    def here(transport):
        data = cut_data(GRAPH, make_owner(2), transport)
        own = halowire.distribute(copy.deepcopy(model), data)
        with pytest.raises(InputError, match=words):
            call(own, data)

    run_threads(2, here)


@pytest.mark.parametrize("workers", [2, 3])
def test_labels_have_a_column_for_every_class_of_all_workers(workers):
    alone = LABELS.clone() % 2
    alone[int((make_owner(workers) == 1).nonzero()[0])] = 5
    want = pyg.LabelPropagation(2, 0.9)(alone, GRAPH["edge_index"], MASK)

    def here(transport):
        data = cut_data(GRAPH | {"y": alone}, make_owner(workers), transport)
        model = halowire.distribute(pyg.LabelPropagation(2, 0.9), data)
        return data.gather(model(data.y, data.edge_index, data.train_mask))

    for found in run_threads(workers, here):
        assert_close("labels", found, want)


@pytest.mark.parametrize("workers", [2, 3])
def test_pmlp_learns_with_edges_as_without(workers):
    model = seeded(lambda: pyg.PMLP(FEATURES, 8, CLASSES, 2, dropout=0.0))
    plain = copy.deepcopy(model)

    def steps(own, call, loss):
        optimizer = torch.optim.SGD(own.parameters(), lr=0.3)
        for _ in range(3):
            optimizer.zero_grad()
            loss(call(own)).backward()
            optimizer.step()
        return [value.detach() for value in own.parameters()]

    want = steps(plain, lambda own: own(GRAPH["x"]), lambda out: F.cross_entropy(out[MASK], LABELS[MASK]))
    output = plain.eval()(GRAPH["x"], GRAPH["edge_index"])

    def here(transport):
        data = cut_data(GRAPH, make_owner(workers), transport)
        own = halowire.distribute(copy.deepcopy(model), data)
        found = steps(own, lambda own: own(data.x, data.edge_index),
                      lambda out: data.cross_entropy(out, data.y, data.train_mask))  # fmt: skip
        with torch.no_grad():
            return found, data.gather(own.eval()(data.x, data.edge_index))

    for found, rows in run_threads(workers, here):
        assert_close("output", rows, output)
        for got, value in zip(found, want, strict=True):
            assert_close("weight", got, value, floor=0.01)
