"""Which settings a distributed model follows, and which are refused because they would do nothing."""

from __future__ import annotations

import pytest
import torch_geometric.nn as pyg
from torch import Tensor, nn

import halowire
from halowire.errors import InputError
from halowire.pyg.attach import state_of
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import make_graph, make_owner, place
from tests.support.pyg_models import HIDDEN, two


class Dropping(nn.Module):
    """Two layers with a norm, dropout between them or after them, by torch's function or by a module, or lost edges."""

    def __init__(self, where: str, p: float) -> None:
        super().__init__()
        self.inner, self.where, self.p = two(pyg.SAGEConv, norm=pyg.BatchNorm(HIDDEN)), where, p
        self.drop, self.edges = nn.Dropout(p), halowire.DropEdges(p if where == "edges" else 0.0)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edges = self.edges(edge_index)
        h = self.inner.norm(self.inner.first(x, edges)).relu()
        if self.where == "function":
            h = nn.functional.dropout(h, self.p, self.training)
        out = self.inner.second(self.drop(h) if self.where == "module" else h, edges)
        return self.drop(out) if self.where == "after" else out


@pytest.mark.parametrize("where", ["function", "module", "edges", "after"])
@pytest.mark.parametrize("p", [0.5, 0.0])
def test_changes_of_rows_are_not_coded_after_dropout(where, p):
    """Other masks in every epoch change rows by more than they are; what no row travels after does not count."""
    drops = p > 0 and where != "after"

    def here(transport):
        data, own = place(transport, Dropping(where, p), "halowire")
        data.mean(own(data.x, data.edge_index).square()).backward()
        transport.settle()
        return [exchange.policy.decay for exchange in state_of(own).exchanges]

    assert run_threads(2, here) == [[None if drops else 1.0]] * 2

    def asked(transport):
        model = Dropping(where, p)
        data = cut_data(make_graph(), make_owner(transport.size), transport)
        for recipe in (("delta",), ("halowire", {"rate.decay": 0.8})) if drops else ():
            with pytest.raises(InputError, match="set its dropout to 0"):
                halowire.distribute(model, data, *recipe)
        # What was refused is as it was, and follows the advice.
        model.drop.p = model.edges.p = model.p = 0.0
        halowire.distribute(model, data, "delta")

    run_threads(2, asked)


SETTINGS = {
    "gnnpipe": ("gnnpipe", {}, "splits the layers"),
    "hybrid": ("hybrid", {}, "splits the layers"),
    "gnnpipe-1bit": ("gnnpipe-1bit", {}, "splits the layers"),
    "weights": ("exact", {"rate.weights": 8}, "rate.weights"),
    "resend_input": ("exact", {"rate.resend_input": True}, "resend-input"),
    "graded budget": (
        "exact",
        {"rate.bits": 1, "rate.nodes": "degree", "rate.schedule": "budget", "rate.budget": 0.5},
        "budget",
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_do_nothing_in_a_model_of_ones_own_are_refused(name):
    recipe, settings, words = SETTINGS[name]

    def here(transport):
        data = cut_data(make_graph(), make_owner(transport.size), transport)
        with pytest.raises(InputError, match=words):
            halowire.distribute(two(pyg.SAGEConv), data, recipe, settings)

    run_threads(2, here)
