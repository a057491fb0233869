"""Outside of a model, sums at the targets of a part's edges are complete; draws and shares of all edges are refused."""

from __future__ import annotations

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import degree, dropout_edge, dropout_node, homophily, softmax

import halowire
from halowire.errors import InputError
from halowire.pyg.own_rows import OwnEdges, OwnEnds, OwnMixed, OwnRows
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import NODES, assert_close, make_graph, make_owner

ENDS = make_graph()["edge_index"]
WEIGHTS = torch.rand(ENDS.shape[1], generator=torch.Generator().manual_seed(4))
GRAPH = make_graph() | {"y": torch.arange(NODES) % 4, "edge_weight": WEIGHTS}


def place(transport):
    return cut_data(GRAPH, make_owner(transport.size), transport)


def test_in_degrees_are_rows_and_their_distribution_is_not():
    degrees = degree(ENDS[1], NODES)

    def here(transport):
        data = place(transport)
        target = data.edge_index[1]
        found = degree(target, data.num_nodes)
        assert type(target) is OwnEnds and type(found) is OwnRows
        assert torch.equal(torch.bincount(target, minlength=data.num_nodes), found)
        assert_close("mean", data.mean(found), degrees.mean())
        assert type(torch.bincount(found.long())) is OwnMixed
        with pytest.raises(InputError, match="over rows of this worker"):
            found / found.max()
        return data.gather(found)

    for found in run_threads(2, here):
        assert torch.equal(found, degrees)


def test_edges_are_normalised_as_on_the_whole_graph():
    whole = gcn_norm(ENDS, WEIGHTS, NODES)[1]
    shares = softmax(WEIGHTS, ENDS[1], num_nodes=NODES)

    def here(transport):
        data = place(transport)
        mine = softmax(data.edge_weight, data.edge_index[1], num_nodes=data.num_nodes)
        assert type(data.x[data.edge_index[1]]) is OwnEdges
        assert_close("softmax", data.gather(mine), shares)
        return gcn_norm(data.edge_index, data.edge_weight, data.num_nodes)[1].sum()

    assert_close("normalised", sum(run_threads(2, here)), whole.sum())


REFUSED = {
    "dropout_edge": (lambda data: dropout_edge(data.edge_index), "`dropout_edge.*halowire.DropEdges"),
    "dropout_node": (lambda data: dropout_node(data.edge_index, num_nodes=data.num_nodes), "before halowire.shard"),
    "homophily": (lambda data: homophily(data.edge_index, data.y), "`homophily.*before halowire.shard cuts the graph"),
    "homophily by node": (lambda data: homophily(data.edge_index, data.y, method="node"), "is a share of all edges"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_draws_and_shares_of_all_edges_are_refused(name):
    use, words = REFUSED[name]

    def here(transport):
        with pytest.raises(InputError, match=words):
            use(place(transport))
        transport.settle()

    run_threads(2, here)


def test_one_worker_may_do_all_of_it():
    def here(transport):
        data = place(transport)
        return [type(use(data)) for use, _ in REFUSED.values()]

    assert run_threads(1, here)[0][2] is float


def test_a_layer_with_the_in_degrees_of_one_worker_is_refused():
    def here(transport):
        data = place(transport)
        counts = torch.bincount(degree(data.edge_index[1], data.num_nodes, dtype=torch.long), minlength=20)
        layer = pyg.PNAConv(6, 4, ["mean"], ["amplification"], counts)
        with pytest.raises(InputError, match="the workers disagree: in-degrees given to"):
            halowire.distribute(layer, data)
        counts = torch.bincount(data.gather(degree(data.edge_index[1], data.num_nodes)).long(), minlength=20)
        return halowire.distribute(pyg.PNAConv(6, 4, ["mean"], ["amplification"], counts), data)

    run_threads(2, here)
