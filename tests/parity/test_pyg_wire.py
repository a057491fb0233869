"""A PyG model's rows travel under the recipe: bytes by formula, one epoch late where asked, exact in evaluation."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg

import halowire
from halowire.errors import InputError
from halowire.events import EVAL, TRAIN
from halowire.pyg.model_pass import FIRST_EXACT
from halowire.pyg.shard_data import cut_data
from halowire.wire import HEADER_BYTES, run_threads
from tests.support.pyg_case import CLASSES, FEATURES, assert_close, make_graph, make_owner
from tests.support.pyg_models import HIDDEN, Deep, two


def make_model() -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return two(pyg.SAGEConv)


def train_here(transport, model, recipe: str, passes: int) -> dict[str, object]:
    data = cut_data(make_graph(), make_owner(transport.size), transport)
    model = halowire.distribute(copy.deepcopy(model), data, recipe, {"wire.plain": True})
    ledger, sent, coded, outs = transport.ledger, [], [], []
    for _ in range(passes):
        before, _ = ledger.totals[TRAIN], ledger.take()
        out = model(data.x, data.edge_index)
        sent.append(ledger.totals[TRAIN] - before)
        exchanges = ledger.take().exchanges
        coded.append(sum(int(entry[0]) for (layer, _), entry in exchanges.items() if layer < FIRST_EXACT))
        data.mean(out.square()).backward()
        outs.append(out.detach())
    model.eval()
    before = ledger.totals[EVAL]
    with torch.no_grad():
        evaluated = model(data.x, data.edge_index)
    return {
        "rows": data.rows, "sent": sent, "outs": outs, "eval": evaluated, "rows_sent": sum(data.shard.send_counts),
        "coded": coded, "eval_sent": ledger.totals[EVAL] - before,
    }  # fmt: skip


@pytest.mark.parametrize(("recipe", "row_bytes"), [("exact", 4 * HIDDEN), ("half", 2 * HIDDEN), ("sylvie-s", 1 + 4)])
def test_bytes_follow_the_recipe_and_raw_features_are_not_sent_again(recipe, row_bytes):
    for found in run_threads(2, lambda transport: train_here(transport, make_model(), recipe, 2)):
        assert found["sent"] == [found["rows_sent"] * row_bytes + HEADER_BYTES] * 2
        assert found["eval_sent"] == found["rows_sent"] * 4 * HIDDEN + HEADER_BYTES


@pytest.mark.parametrize("recipe", ["exact", "sylvie-s", "sylvie-a", "varco", "halowire", "bns"])
def test_evaluation_is_exact_under_every_recipe(recipe):
    model, graph = make_model(), make_graph()
    with torch.no_grad():
        want = copy.deepcopy(model).eval()(graph["x"], graph["edge_index"])
    for found in run_threads(3, lambda transport: train_here(transport, model, recipe, 2)):
        assert_close("eval", found["eval"], want[found["rows"]])


HOPS = {"APPNP": (lambda: Deep("appnp"), [HIDDEN] * 4), "ChebConv": (lambda: two(pyg.ChebConv, K=3), [HIDDEN] * 2)}
"""Layers that propagate several times, and the widths of the rows with a gradient, in their order."""
STEADY = ("APPNP",)
"""Of these the layers that normalise their edges once, so that degrees travel in the first pass only."""


def make_hops(name: str) -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return HOPS[name][0]()


@pytest.mark.parametrize("name", HOPS)
@pytest.mark.parametrize("recipe", ["exact", "half", "sylvie-s", "bns"])
def test_every_hop_of_a_layer_travels_under_the_recipe(name, recipe):
    """Bytes are rows times the bytes of a row, for each hop, or fewer where rows are sampled."""
    row_bytes = {"exact": lambda k: 4 * k, "half": lambda k: 2 * k, "sylvie-s": lambda k: (k + 7) // 8 + 4}
    widths = HOPS[name][1]
    for found in run_threads(2, lambda transport: train_here(transport, make_hops(name), recipe, 2)):
        fixed = found["sent"][0] - found["coded"][0]
        for number, (sent, coded) in enumerate(zip(found["sent"], found["coded"], strict=True)):
            if recipe in row_bytes:
                rows = found["rows_sent"] * sum(row_bytes[recipe](width) for width in widths)
                assert coded == rows + len(widths) * HEADER_BYTES
            else:
                assert 0 < coded < found["rows_sent"] * sum(4 * width for width in widths)
            once = number > 0 and name in STEADY
            assert sent - coded == (0 if once else fixed) and fixed > 0, "what carries no gradient travels exactly"


@pytest.mark.parametrize("name", HOPS)
def test_hops_that_are_never_late_are_exact(name):
    model, graph = make_hops(name), make_graph()
    plain = copy.deepcopy(model)
    plain(graph["x"], graph["edge_index"]).square().mean().backward()

    def here(transport):
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data, "pipegcn", {"freshness.sync_every": 1})
        outs = []
        for _ in range(2):
            own.zero_grad()
            outs.append(own(data.x, data.edge_index))
            data.mean(outs[-1].square()).backward()
        return data.rows, [out.detach() for out in outs], [parameter.grad for parameter in own.parameters()]

    with torch.no_grad():
        want = plain(graph["x"], graph["edge_index"])
    for rows, outs, grads in run_threads(2, here):
        for out in outs:
            assert_close("output", out, want[rows])
        for grad, parameter in zip(grads, plain.parameters(), strict=True):
            assert_close("gradient", grad, parameter.grad)


def test_delayed_rows_are_those_of_the_last_pass():
    """Without a step the rows stay the same: nothing arrives in the first pass, the exact rows in the second."""
    model, graph, owner = make_model(), make_graph(), make_owner(2)
    want = model(graph["x"], graph["edge_index"])
    row, col = graph["edge_index"]
    hidden = model.norm(model.first(graph["x"], graph["edge_index"])).relu()
    for found in run_threads(2, lambda transport: train_here(transport, model, "pipegcn", 2)):
        rank = int(owner[found["rows"][0]])
        alone = torch.where((owner == rank)[:, None], hidden, torch.zeros(()))
        first = model.second(alone, torch.stack([row, col]))
        assert_close("first pass", found["outs"][0], first[found["rows"]].detach())
        assert_close("second pass", found["outs"][1], want[found["rows"]].detach())
        assert float((found["outs"][0] - found["outs"][1]).abs().max()) > 1e-3


def test_gradients_of_several_losses_add_up():
    model, graph = make_model(), make_graph()
    plain = copy.deepcopy(model)
    plain(graph["x"], graph["edge_index"]).square().mean().backward()

    def here(transport):
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data)
        for _ in range(3):
            data.mean(own(data.x, data.edge_index).square()).backward()
        return [parameter.grad for parameter in own.parameters()]

    for grads in run_threads(2, here):
        for got, parameter in zip(grads, plain.parameters(), strict=True):
            assert_close("gradient", got, 3 * parameter.grad)


def test_weights_load_back_into_plain_pyg():
    model, graph = make_model(), make_graph()

    def here(transport):
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data, "sylvie-a")
        optimiser = torch.optim.Adam(own.parameters(), lr=0.05)
        for _ in range(5):
            optimiser.zero_grad()
            data.mean(own(data.x, data.edge_index).square()).backward()
            optimiser.step()
        own.eval()
        with torch.no_grad():
            return data.rows, own(data.x, data.edge_index), own.state_dict()

    for rows, out, weights in run_threads(2, here):
        fresh = two(pyg.SAGEConv)
        fresh.load_state_dict(weights)
        with torch.no_grad():
            assert_close("output", out, fresh(graph["x"], graph["edge_index"])[rows])


class Dropping(torch.nn.Module):
    """DropEdge in front of layers that need degrees and edge features."""

    def __init__(self, undirected: bool) -> None:
        super().__init__()
        self.drop = halowire.DropEdges(0.5, seed=7, undirected=undirected)
        self.first, self.second = pyg.GCNConv(FEATURES, HIDDEN), pyg.GATConv(HIDDEN, CLASSES, edge_dim=3)

    def forward(self, x, edge_index, edge_weight, edge_attr):
        edge_index, edge_weight, edge_attr = self.drop(edge_index, edge_weight, edge_attr)
        return self.second(self.first(x, edge_index, edge_weight).relu(), edge_index, edge_attr)


@pytest.mark.parametrize("undirected", [False, True])
def test_dropped_edges_are_the_same_for_any_number_of_workers(undirected):
    model, graph = Dropping(undirected), make_graph()
    names = ("x", "edge_index", "edge_weight", "edge_attr")
    plain = copy.deepcopy(model)
    want = [plain(*(graph[name] for name in names)).detach() for _ in range(2)]
    assert float((want[0] - want[1]).abs().max()) > 1e-3, "every pass drops other edges"

    def here(transport):
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data)
        return data.rows, [own(*(getattr(data, name) for name in names)).detach() for _ in range(2)]

    for rows, outs in run_threads(3, here):
        for out, whole in zip(outs, want, strict=True):
            assert_close("output", out, whole[rows])


@pytest.mark.parametrize("rows", [5, 9])
def test_drop_edges_wants_a_row_for_each_edge(rows):
    with pytest.raises(InputError, match=rf"a tensor of shape \[{rows}, 2\] beside 7 edges"):
        halowire.DropEdges(0.3)(torch.zeros(2, 7, dtype=torch.int64), torch.ones(7), torch.ones(rows, 2))


def test_dropped_edges_are_as_many_as_asked_for_and_symmetric():
    nodes = torch.arange(200)
    edges = torch.cartesian_prod(nodes, nodes).t()
    drop = halowire.DropEdges(0.3, undirected=True)
    kept = torch.zeros(200, 200)
    left = drop(edges)
    kept[left[0], left[1]] = 1
    assert torch.equal(kept, kept.t())
    assert float(kept.mean()) == pytest.approx(0.7, abs=0.01)
    assert drop.eval()(edges) is edges
