"""A norm outside of the model would take one worker's statistics, and is refused; a norm of each row is not."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

from halowire.errors import InputError
from halowire.wire import run_threads
from tests.support.pyg_case import CLASSES, FEATURES, assert_close, make_graph, place, seeded
from tests.support.pyg_models import two
from tests.support.worker_counts import two_and_three

REFUSED = {"BatchNorm1d": nn.BatchNorm1d, "PyG's BatchNorm": pyg.BatchNorm, "PyG's InstanceNorm": pyg.InstanceNorm}
LET_IN = {
    "LayerNorm": nn.LayerNorm,
    "InstanceNorm1d of each row": nn.InstanceNorm1d,
    "BatchNorm1d that learnt": lambda width: nn.BatchNorm1d(width).eval(),
}


def head(norm, width):
    return nn.Sequential(nn.Linear(width, width), norm(width), nn.ReLU())


@two_and_three
@pytest.mark.parametrize("norm", REFUSED.values(), ids=REFUSED.keys())
def test_a_norm_over_rows_is_refused_in_a_head_and_before_the_model(norm, workers):
    def here(transport):
        data, model = place(transport, seeded(lambda: two(pyg.SAGEConv)))
        behind, before = seeded(lambda: (head(norm, CLASSES), head(norm, FEATURES)))
        mask = torch.arange(data.num_nodes) % 2 == 0
        for rows in (slice(None), data.own(mask.nonzero()[:, 0])):
            with pytest.raises(InputError, match="part of the model"):
                data.mean(behind(model(data.x, data.edge_index)[rows]).square())
        with pytest.raises(InputError, match="part of the model"):
            model(before(data.x), data.edge_index)

    run_threads(workers, here)


@pytest.mark.parametrize("norm", LET_IN.values(), ids=LET_IN.keys())
def test_a_norm_of_each_row_learns_as_in_one_process(norm):
    plain, graph = seeded(lambda: (two(pyg.SAGEConv), head(norm, CLASSES), head(norm, FEATURES))), make_graph()

    def gradients(parts, x, edge_index, mean):
        model, behind, before = parts
        mean(behind(model(before(x), edge_index)).square()).backward()
        return [value.grad for part in (behind, before) for value in part.parameters()]

    want = gradients(copy.deepcopy(plain), graph["x"], graph["edge_index"], torch.mean)

    def here(transport):
        data, model = place(transport, plain[0])
        return gradients((model, *copy.deepcopy(plain[1:])), data.x, data.edge_index, data.mean)

    for found in run_threads(2, here):
        for got, value in zip(found, want, strict=True):
            assert_close("gradient", got, value)
