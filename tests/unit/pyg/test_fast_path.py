"""Fast paths: served by the native kernels where that is right, by PyG elsewhere, with the same numbers."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg

import halowire
from halowire.graph import Graph
from halowire.kernels import Csr
from halowire.layers import GAT, Inputs, Rows, Shape
from halowire.partitioning import cut, partition
from halowire.pyg import fast_path
from halowire.pyg.fast_path import overlap_by_layer
from halowire.pyg.shard_data import cut_data
from halowire.schedules import BoundaryFirst, Part, Stage
from halowire.wire import HaloExchange, Transport, crossing, run_threads
from tests.support.pyg_case import CLASSES, FEATURES, assert_close, compare, make_graph, make_owner, run_part, run_plain
from tests.support.pyg_models import HIDDEN, Two, build, two

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
    forward = fast_path.WeightedSum.forward
    monkeypatch.setattr(fast_path.WeightedSum, "forward", staticmethod(lambda *args: seen.append(1) or forward(*args)))
    model, inputs = build(name)

    def here(transport):
        data = cut_data(make_graph(), make_owner(1), transport)
        own = halowire.distribute(model, data)
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
        own = halowire.distribute(two(pyg.SAGEConv), data, settings={"wire.plain": True}).train()
        transport.settle()
        mine = len(log)
        data.mean(own(data.x, data.edge_index).square()).backward()
        return [word for thread, word in log[mine:] if thread == threading.get_ident()]

    for name, word in (("start", "launch"), ("start_back", "launch back"), ("arrive", "arrive")):
        monkeypatch.setattr(HaloExchange, name, watched(getattr(HaloExchange, name), word))
    matmul, product = Csr.matmul, watched(Csr.matmul, "product")
    # All rows count as boundary here, so the product over the interior has no rows.
    monkeypatch.setattr(
        Csr, "matmul", lambda self, *args, **kw: (product if self.num_rows else matmul)(self, *args, **kw)
    )
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
        own = halowire.distribute(model, data).train()
        own(*(getattr(data, name) for name in inputs))
        transport.settle()
        return overlap_by_layer(halowire.layer_paths(own))

    words = {
        "SAGEConv mean": {"first": "plain overlap: PyG model", "second": "plain overlap: PyG model"},
        "SAGEConv max": dict.fromkeys(("first", "second"), "not hidden: PyG's own code takes all rows at once"),
        "GATConv concat": dict.fromkeys(("first", "second"), "not hidden: attention takes all rows at once"),
        "own arithmetic": {"all": "not hidden: the model's own code takes all rows at once"},
    }
    for name, want in words.items():
        assert run_threads(2, lambda transport, name=name: here(transport, name)) == [want] * 2


def test_a_layer_that_was_not_trained_says_so():
    def here(transport):
        data = cut_data(make_graph(), make_owner(1), transport)
        own = halowire.distribute(two(pyg.GCNConv), data).eval()
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
        own = halowire.distribute(copy.deepcopy(plain), data)
        own.zero_grad()
        data.mean(own(*(getattr(data, name) for name in names)).square()).backward()
        return own.scale.grad

    for got in run_threads(2, here):
        assert_close("gradient of the edges' scale", got, plain.scale.grad)


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
    forward = fast_path.Attend.forward
    monkeypatch.setattr(fast_path.Attend, "forward", staticmethod(lambda *args: seen.append(1) or forward(*args)))
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
        own = halowire.distribute(copy.deepcopy(model), data).train()
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
        own = halowire.distribute(copy.deepcopy(model), data).eval()
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
