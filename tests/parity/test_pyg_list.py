"""The list of PyG's examples and of users' habits: each row of the page has a test; the list of layers is beside."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.data import Data

import halowire
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import (
    CLASSES,
    FEATURES,
    NODES,
    assert_close,
    make_graph,
    make_owner,
    seeded,
)  # fmt: skip
from tests.support.pyg_examples import EXAMPLES, HABITS, REFUSED
from tests.support.pyg_list import PAGE, listed_tests, updated
from tests.support.worker_counts import two_and_three

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_list():
    assert PAGE.read_text() == updated(PAGE.read_text()), "run python -m tests.support.pyg_list"


PROVEN = [row for row in (*EXAMPLES, *REFUSED, *HABITS) if row.test]


def test_only_what_is_not_let_in_has_no_test():
    assert all(row.test for row in (*EXAMPLES, *HABITS))
    assert all("not" in row.change or "other ways" in row.change for row in REFUSED if not row.test)


@pytest.mark.parametrize("row", PROVEN, ids=lambda row: row.name[:30])
def test_every_row_has_a_test(row):
    file, _, function = row.test.partition("::")
    assert f"def {function}(" in (ROOT / file).read_text()


def test_the_slow_suite_runs_the_test_of_every_row():
    listed = listed_tests()
    assert {row.test for row in PROVEN} <= set(listed) and len(listed) == len(set(listed))
    assert "-m pytest $$($(BIN)/python -m tests.support.pyg_list tests)" in (ROOT / "Makefile").read_text()


class Gcn(nn.Module):
    """The model of PyG's ``examples/gcn.py``."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv1 = pyg.GCNConv(in_channels, hidden_channels, cached=True)
        self.conv2 = pyg.GCNConv(hidden_channels, out_channels, cached=True)

    def forward(self, x, edge_index, edge_weight=None):
        x = F.dropout(x, p=0.0, training=self.training)
        x = self.conv1(x, edge_index, edge_weight).relu()
        x = F.dropout(x, p=0.0, training=self.training)
        return self.conv2(x, edge_index, edge_weight)


@two_and_three
def test_gcn_as_written(workers):
    """The script of ``examples/gcn.py`` but for its dropout: three epochs of training, and the accuracies."""
    places = torch.arange(NODES) % 3
    masks = {f"{name}_mask": places == place for place, name in enumerate(("train", "val", "test"))}
    graph = make_graph()
    graph = {"x": graph["x"], "edge_index": graph["edge_index"], "y": torch.arange(NODES) % CLASSES} | masks
    model = seeded(lambda: Gcn(FEATURES, 16, CLASSES))

    def script(own, data, cross_entropy, mean):
        groups = [{"params": own.conv1.parameters(), "weight_decay": 5e-4},
                  {"params": own.conv2.parameters(), "weight_decay": 0}]  # fmt: skip
        optimizer = torch.optim.Adam(groups, lr=0.01)
        for _ in range(3):
            own.train()
            optimizer.zero_grad()
            out = own(data.x, data.edge_index, data.edge_attr)
            cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
            optimizer.step()
        with torch.no_grad():
            pred = own.eval()(data.x, data.edge_index, data.edge_attr).argmax(dim=-1)
        kept = [data.train_mask, data.val_mask, data.test_mask]
        return [value.detach() for value in own.parameters()], [float(mean(pred[m] == data.y[m])) for m in kept]

    weights, shares = script(copy.deepcopy(model), Data(**graph), F.cross_entropy, lambda hit: hit.float().mean())

    def here(transport):
        data = cut_data(graph, make_owner(transport.size), transport).to("cpu")
        return script(halowire.distribute(copy.deepcopy(model), data), data, data.cross_entropy, data.mean)

    for found, accuracies in run_threads(workers, here):
        assert accuracies == pytest.approx(shares)
        for got, value in zip(found, weights, strict=True):
            assert_close("weight", got, value, floor=0.01)
