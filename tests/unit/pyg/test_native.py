"""Fast paths: served by the native kernels where that is right, by PyG elsewhere, with the same numbers."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
import torch_geometric.nn as pyg

import halowire
from halowire.kernels import Csr
from halowire.pyg import native
from halowire.pyg.attach import attach
from halowire.pyg.layer_path import foreign_overlap
from halowire.pyg.shard_data import cut_data
from halowire.wire import HaloExchange, crossing, run_threads
from tests.support.pyg_case import assert_close, make_graph, make_owner
from tests.support.pyg_models import build, two

AGAINST = "messages go against the edges"
NO_KERNEL = "halowire has no kernel for this kind of layer"


@pytest.mark.parametrize(
    ("name", "layers", "calls"),
    [
        ("GCNConv", {"first": "", "second": ""}, 2), ("SAGEConv mean", {"first": "", "second": ""}, 2),
        ("SAGEConv max", {"first": "aggr is max", "second": "aggr is max"}, 0), ("APPNP", {"conv": ""}, 4),
        ("GATConv concat", {"first": "", "second": ""}, 0), ("GIN model", {"convs.0": "", "convs.1": ""}, 2),
        ("GCNConv against the edges", {"first": AGAINST, "second": AGAINST}, 0),
        ("own layer", {"first": NO_KERNEL, "second": NO_KERNEL}, 0), ("own arithmetic", {}, 0),
    ],
)  # fmt: skip
def test_which_layers_run_native(monkeypatch, name, layers, calls):
    seen = []
    forward = native.WeightedSum.forward
    monkeypatch.setattr(native.WeightedSum, "forward", staticmethod(lambda *args: seen.append(1) or forward(*args)))
    model, inputs = build(name)

    def here(transport):
        data = cut_data(make_graph(), make_owner(1), transport)
        own = attach(model, data)
        values = [getattr(data, name) for name in inputs]
        own.eval()(*values)
        seen.clear()
        own.train()(*values)
        return halowire.layer_paths(own)

    (paths,) = run_threads(1, here)
    assert {name: path.reason for name, path in paths.items()} == layers
    for path in paths.values():
        assert path.path == ("general" if path.reason else "native")
        assert not path.reason or path.native == 0
    assert len(seen) == calls == sum(path.native for path in paths.values() if path.kind != "GATConv")


def test_own_edges_are_summed_while_messages_fly(monkeypatch):
    """Launch, product, arrival, forward and backward; and no matrix of own and halo rows is made."""
    log = []

    def watched(usual, word):
        return lambda *args, **kw: log.append((threading.get_ident(), word)) or usual(*args, **kw)

    def here(transport):
        data = cut_data(make_graph(), make_owner(2), transport)
        own = attach(two(pyg.SAGEConv), data).train()
        transport.settle()
        mine = len(log)
        data.mean(own(data.x, data.edge_index).square()).backward()
        return [word for thread, word in log[mine:] if thread == threading.get_ident()]

    for name, word in (("start", "launch"), ("start_back", "launch back"), ("arrive", "arrive")):
        monkeypatch.setattr(HaloExchange, name, watched(getattr(HaloExchange, name), word))
    monkeypatch.setattr(Csr, "matmul", watched(Csr.matmul, "product"))
    monkeypatch.setattr(crossing.Extend, "forward", staticmethod(watched(crossing.Extend.forward, "join")))
    forward = ["product", "product", "launch", "product", "arrive", "product"]
    backward = ["product", "launch back", "product", "arrive", "product"]
    for found in run_threads(2, here):
        # The first layer's input is kept, halo and all: two products, no message, and no gradient beyond its weights.
        assert found == forward + backward


def test_the_overlap_is_told_as_it_was():
    def here(transport, name):
        model, inputs = build(name)
        data = cut_data(make_graph(), make_owner(2), transport)
        own = attach(model, data).train()
        own(*(getattr(data, name) for name in inputs))
        transport.settle()
        return foreign_overlap(halowire.layer_paths(own))

    words = {
        "SAGEConv mean": {"first": "plain overlap: foreign model", "second": "plain overlap: foreign model"},
        "SAGEConv max": dict.fromkeys(("first", "second"), "not hidden: PyG's own code takes all rows at once"),
        "GATConv concat": dict.fromkeys(("first", "second"), "not hidden: attention takes all rows at once"),
        "own arithmetic": {"all": "not hidden: the model's own code takes all rows at once"},
    }
    for name, want in words.items():
        assert run_threads(2, lambda transport, name=name: here(transport, name)) == [want] * 2


def test_a_layer_that_was_not_trained_says_so():
    def here(transport):
        data = cut_data(make_graph(), make_owner(1), transport)
        own = attach(two(pyg.GCNConv), data).eval()
        own(data.x, data.edge_index)
        before = [path.path for path in halowire.layer_paths(own).values()]
        own.train()(data.x, data.edge_index)
        weight = torch.ones(data.edge_index.shape[1], requires_grad=True)
        own(data.x, data.edge_index, weight)
        return before, halowire.layer_paths(own)["second"]

    ((before, after),) = run_threads(1, here)
    assert before == ["not trained yet"] * 2
    assert (after.native, after.general, after.path) == (1, 1, "native and general")
    assert after.reason == "the edges' weights are learnt"


def test_a_plain_model_has_no_paths():
    with pytest.raises(halowire.InputError, match="not distributed"):
        halowire.layer_paths(two(pyg.GCNConv))


def test_edge_weights_with_a_gradient_keep_it():
    model, graph = two(pyg.GraphConv), make_graph()

    class Weighted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.scale = copy.deepcopy(model), torch.nn.Parameter(torch.tensor(0.7))

        def forward(self, x, edge_index, edge_weight):
            return self.model(x, edge_index, self.scale * edge_weight)

    names = ("x", "edge_index", "edge_weight")
    plain = Weighted()
    plain(*(graph[name] for name in names)).square().mean().backward()

    def here(transport):
        data = cut_data(graph, make_owner(2), transport)
        own = attach(copy.deepcopy(plain), data)
        own.zero_grad()
        data.mean(own(*(getattr(data, name) for name in names)).square()).backward()
        return own.scale.grad

    for got in run_threads(2, here):
        assert_close("gradient of the edges' scale", got, plain.scale.grad)
