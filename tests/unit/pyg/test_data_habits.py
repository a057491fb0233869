"""A part answers as PyG's Data does: the same names, the whole graph's facts, and a word where it cannot."""

from __future__ import annotations

import copy

import pytest
import torch
from torch_geometric.data import Data

from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import NODES, make_graph, make_owner
from tests.support.worker_counts import three_and_two

LABELS = torch.arange(NODES) % 7


def part(transport, graph):
    return cut_data(graph, make_owner(transport.size), transport)


def both_ways(graph):
    """The reverse of every edge has the same features; no edge occurs twice, and so PyG's answer is well defined."""
    one_way = graph["edge_index"][:, graph["edge_index"][0] < graph["edge_index"][1]].unique(dim=1)
    features = torch.randn(one_way.shape[1], 3, generator=torch.Generator().manual_seed(0))
    edges = torch.cat([one_way, one_way.flip(0)], 1)
    return {"edge_index": edges, "x": graph["x"], "edge_attr": features.repeat(2, 1)}


def one_feature_changed(graph):
    graph["edge_attr"][0, 0] += 1
    return graph


def lonely():
    """Node 4 has only an edge to itself; node 2 has only an edge that leaves it."""
    return {"edge_index": torch.tensor([[0, 2, 4, 1], [1, 3, 4, 0]]), "x": torch.ones(5, 1)}


def chain():
    return {"edge_index": torch.tensor([[0, 2, 1, 4], [1, 3, 2, 3]]), "x": torch.ones(5, 1)}


GRAPHS = {
    "directed": make_graph,
    "undirected": lambda: both_ways(make_graph()),
    "undirected but for a feature": lambda: one_feature_changed(both_ways(make_graph())),
    "isolated": lonely,
    "chain": chain,
}
QUESTIONS = ("num_features", "num_node_features", "num_edge_features", "num_node_types", "num_edge_types")
WHOLE = ("has_self_loops", "has_isolated_nodes", "is_undirected", "is_directed", "contains_self_loops")


@three_and_two
@pytest.mark.parametrize("name", GRAPHS)
def test_questions_have_the_answers_of_the_whole_graph(name, workers):
    graph = GRAPHS[name]()
    whole = Data(**graph)
    nodes = whole.num_nodes

    def here(transport):
        data = cut_data(graph, make_owner(transport.size, nodes), transport)
        assert data.num_whole_edges == whole.num_edges and data.num_whole_nodes == nodes
        return [getattr(data, name) for name in QUESTIONS] + [getattr(data, name)() for name in WHOLE]

    want = [getattr(whole, name) for name in QUESTIONS] + [getattr(whole, name)() for name in WHOLE]
    assert run_threads(workers, here) == [want] * workers


def test_names_and_tensors_are_reached_as_in_pyg():
    graph = make_graph() | {"y": LABELS}
    whole = Data(**graph)

    def here(transport):
        data = part(transport, graph)
        assert set(data.keys()) == set(data.keys) == set(whole.keys())
        assert data["x"] is data.x and "x" in data and "edge_weights" not in data and len(data) == len(graph)
        assert {name for name, _ in data} == set(graph) == set(data.to_dict())
        assert [name for name, _ in data("x", "y")] == ["x", "y"]
        assert data.to_namedtuple().x is data.x
        assert data.num_classes == 7
        assert set(data.node_attrs()) == set(whole.node_attrs())
        assert set(data.edge_attrs()) == set(whole.edge_attrs())
        assert data.edge_attr.shape[0] == data.num_edges == data.edge_index.shape[1]
        assert data.size(0) == data.num_nodes == data.rows.numel()

    run_threads(2, here)


def test_what_pyg_gives_as_none_is_none():
    def here(transport):
        data = part(transport, {"edge_index": make_graph()["edge_index"], "x": torch.ones(NODES, 1)})
        assert data.edge_attr is None and data.edge_weight is None and data.pos is None and data.y is None
        assert data.get("anything", 5) == 5 and not hasattr(data, "train_mask")
        with pytest.raises(AttributeError, match="it has edge_index, x"):
            _ = data.train_mask

    run_threads(2, here)


def test_a_part_is_moved_copied_and_changed_as_in_pyg():
    def here(transport):
        data = part(transport, make_graph())
        assert data.to("cpu") is data and data.cpu() is data and data.contiguous() is data and data.validate()
        for twin in (data.clone(), copy.copy(data), copy.deepcopy(data)):
            twin.x = twin.x + 1
            twin["extra"] = twin.x
            assert not torch.equal(twin.x, data.x) and "extra" in twin and "extra" not in data
        data.extra = data.x
        del data.extra
        assert "extra" not in data and data.clone().requires_grad_("x").x.requires_grad
        assert not data.detach().x.requires_grad
        with pytest.raises(AttributeError, match="to delete"):
            del data.extra

    run_threads(2, here)


def test_what_needs_the_whole_graph_says_so():
    def here(transport):
        data = part(transport, make_graph())
        for name in ("coalesce", "subgraph", "sort", "to_heterogeneous", "is_coalesced"):
            with pytest.raises(InputError, match=r"before halowire\.shard"):
                getattr(data, name)
        for name, value in (("edge_index", torch.zeros(2, 3).long()), ("num_nodes", 5)):
            with pytest.raises(InputError, match=r"halowire\.shard"):
                setattr(data, name, value)
        with pytest.raises(InputError, match="device='cuda'"):
            data.to("cuda")

    run_threads(2, here)
