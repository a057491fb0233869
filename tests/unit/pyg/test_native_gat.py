"""The library's GAT, PyG's GATConv on the fast path, and plain PyG give the same numbers from the same parameters."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg

import halowire
from halowire.graph import Graph
from halowire.layers import GAT, Inputs, Rows, Shape
from halowire.partitioning import cut, partition
from halowire.pyg import native_gat
from halowire.pyg.attach import attach
from halowire.pyg.shard_data import cut_data
from halowire.schedules import BoundaryFirst, Part, Stage
from halowire.wire import HaloExchange, Transport, run_threads
from tests.support.pyg_case import CLASSES, FEATURES, assert_close, compare, make_graph, make_owner, run_part, run_plain
from tests.support.pyg_models import HIDDEN, Two

OPTIONS = [
    {"heads": 3},
    {"heads": 2, "concat": False},
    {"heads": 1, "negative_slope": 0.0},
    {"heads": 4, "add_self_loops": False},
    {"heads": 2, "bias": False},
    {"heads": 2, "residual": True},
]


def gat(**options) -> torch.nn.Module:
    torch.manual_seed(3)
    width = HIDDEN * options["heads"] if options.get("concat", True) else HIDDEN
    return Two(pyg.GATConv(FEATURES, HIDDEN, **options), pyg.GATConv(width, CLASSES, **options), None)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("workers", [1, 3])
def test_native_attention_equals_plain_pyg(monkeypatch, workers, options):
    seen = []
    forward = native_gat.Attend.forward
    monkeypatch.setattr(native_gat.Attend, "forward", staticmethod(lambda *args: seen.append(1) or forward(*args)))
    model, graph, names = gat(**options), make_graph(), ("x", "edge_index")
    owner = make_owner(workers)
    parts = run_threads(workers, lambda transport: run_part(transport, model, graph, owner, names))
    compare(parts, run_plain(model, graph, names))
    assert seen, "the fast path was not taken"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dropout": 0.5}, "dropout of attention while training"),
        ({"edge_dim": 3}, "edge features"),
        ({"negative_slope": -0.1}, "negative_slope is -0.1"),
    ],
)
def test_other_options_take_the_general_path(options, reason):
    model, graph = gat(heads=2, **options), make_graph()

    def here(transport):
        data = cut_data(graph, make_owner(1), transport)
        own = attach(copy.deepcopy(model), data).train()
        given = (data.edge_attr,) if "edge_dim" in options else ()
        own(data.x, data.edge_index, *given)
        return halowire.layer_paths(own), own.eval()(data.x, data.edge_index, *given).detach()

    ((paths, out),) = run_threads(1, here)
    assert {name: (path.path, path.reason) for name, path in paths.items()} == {
        "first": ("general", reason), "second": ("general", reason),
    }  # fmt: skip
    given = (graph["edge_attr"],) if "edge_dim" in options else ()
    assert_close("output", out, model.eval()(graph["x"], graph["edge_index"], *given).detach())


def test_changed_edges_are_sorted_anew():
    model, graph = gat(heads=2), make_graph()

    def here(transport):
        data = cut_data(graph, make_owner(1), transport)
        own = attach(copy.deepcopy(model), data).eval()
        own(data.x, data.edge_index)
        return own(data.x, data.edge_index[:, :100]).detach(), data.rows

    ((out, rows),) = run_threads(1, here)
    want = model.eval()(graph["x"], graph["edge_index"][:, :100]).detach()
    assert_close("output", out, want[rows])


def test_the_model_zoo_equals_pyg():
    graph = make_graph()
    edges = graph["edge_index"]
    whole = Graph.from_edge_index(edges, 90, x=graph["x"], y=torch.zeros(90, dtype=torch.int64), num_classes=4)
    shard = cut(whole, partition(whole, 1))[0]
    exchange = HaloExchange(shard, Transport(), torch.device("cpu"))
    model = GAT(Shape(6, 12, 4, num_layers=2, dropout=0.0, norm="none", heads=3), seed=5)
    edges_ready = model.aggregation(shard, exchange)
    part = Part(shard.ids, Inputs.of(shard, edges_ready, aggregates=True), edges_ready)
    convs = [pyg.GATConv(6, 4, heads=3), pyg.GATConv(12, 4, heads=3, concat=False)]
    with torch.no_grad():
        for block, conv in zip(model.blocks, convs, strict=True):
            block.conv.bias.normal_()
            conv.lin.weight.copy_(block.conv.weight)
            conv.att_src.copy_(block.conv.att_src)
            conv.att_dst.copy_(block.conv.att_dst)
            conv.bias.copy_(block.conv.bias)
    want = convs[1](F.relu(convs[0](graph["x"], edges)), edges)
    factor = torch.randn(want.shape, generator=torch.Generator().manual_seed(2))
    (want * factor).sum().backward()
    schedule = BoundaryFirst(Stage.of(model, 0, 2))
    with torch.no_grad():
        got, passed = schedule.forward(part, Rows.whole(shard.ids, training=True))
        schedule.backward(part, passed, factor[shard.rows], lambda parameter: None)
    assert_close("logits", got, want.detach()[shard.rows])
    for block, conv in zip(model.blocks, convs, strict=True):
        pairs = {"weight": conv.lin.weight, "att_src": conv.att_src, "att_dst": conv.att_dst, "bias": conv.bias}
        for name, parameter in pairs.items():
            own = getattr(block.conv, name).grad
            assert_close(f"gradient of {name}", own, parameter.grad.view(own.shape))
