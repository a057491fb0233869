"""Fast paths: served by the native kernels where that is right, by PyG elsewhere, with the same numbers."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg

from halowire.exchange.in_process import run_threads
from halowire.nn.foreign import native
from halowire.nn.foreign.distributed import distribute, state_of
from halowire.nn.foreign.shard_data import cut_data
from tests.foreign.case import assert_close, make_graph, make_owner
from tests.foreign.models import build, two


@pytest.mark.parametrize(
    ("name", "layers", "calls"),
    [
        ("GCNConv", ["first", "second"], 2), ("SAGEConv mean", ["first", "second"], 2), ("SAGEConv max", [], 0),
        ("APPNP", ["conv"], 4), ("GATConv concat", ["first", "second"], 0), ("GIN model", ["convs.0", "convs.1"], 2),
        ("GCNConv against the edges", ["first", "second"], 0), ("own layer", [], 0),
    ],
)  # fmt: skip
def test_which_layers_run_native(monkeypatch, name, layers, calls):
    seen = []
    forward = native.WeightedSum.forward
    monkeypatch.setattr(native.WeightedSum, "forward", staticmethod(lambda *args: seen.append(1) or forward(*args)))
    model, inputs = build(name)

    def here(transport):
        data = cut_data(make_graph(), make_owner(1), transport)
        own = distribute(model, data)
        values = [getattr(data, name) for name in inputs]
        own(*values)
        seen.clear()
        own(*values)
        return state_of(own).native

    assert run_threads(1, here) == [layers]
    assert len(seen) == calls


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
        own = distribute(copy.deepcopy(plain), data)
        own.zero_grad()
        data.mean(own(*(getattr(data, name) for name in names)).square()).backward()
        return own.scale.grad

    for got in run_threads(2, here):
        assert_close("gradient of the edges' scale", got, plain.scale.grad)
