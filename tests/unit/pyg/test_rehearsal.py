"""What cannot work on a shard is refused, with the reason and the alternative; what is refused was never wrong."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric import utils

import halowire
from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data, tensors_of
from halowire.wire import run_threads
from tests.support.pyg_case import CLASSES, FEATURES, make_graph, make_owner
from tests.support.pyg_models import HIDDEN, two


class Conv(nn.Module):
    """One GCN layer, and what a test does with its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.GCNConv(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.after(self.conv(x, self.edges(edge_index)), edge_index)

    def edges(self, edge_index: Tensor) -> Tensor:
        return edge_index

    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return h


class Readout(Conv):
    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return h + pyg.global_mean_pool(h, None)


class Pooled(Conv):
    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return pyg.global_add_pool(h, None)


class OwnNorm(Conv):
    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return (h - h.mean(0)) / h.std(0)


class Attention(Conv):
    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return torch.softmax(h @ h.t(), 1) @ h


class DroppedEdges(Conv):
    def edges(self, edge_index: Tensor) -> Tensor:
        return utils.dropout_edge(edge_index, 0.5, training=self.training)[0]


class Undirected(Conv):
    def edges(self, edge_index: Tensor) -> Tensor:
        return utils.to_undirected(edge_index)


class Counting(Conv):
    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return h / (int(edge_index.max()) + 1)


class Numbered(Conv):
    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return h * (edge_index[0] < edge_index[1]).float().mean()


class SelfLoopsOnly(Conv):
    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return h + self.conv.bias * edge_index.shape[1]


class OtherTable(Conv):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(80, CLASSES)

    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return h + self.table.weight


class TwoKinds(Conv):
    """The first 40 nodes have a map of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Linear(CLASSES, CLASSES), nn.Linear(CLASSES, CLASSES)

    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return torch.cat([self.users(h[:40]), self.items(h[40:])])


class FirstNodes(Conv):
    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return h * (torch.arange(h.shape[0]) < 60)[:, None]


class ManyNodes(Conv):
    most = 60

    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return h * 2 if h.shape[0] > self.most else h


class MoreThanAFew(ManyNodes):
    most = 30


class WithoutSource(Conv):
    def edges(self, edge_index: Tensor) -> Tensor:
        return edge_index[:, edge_index[0] != 50]


class WithoutTarget(Conv):
    def edges(self, edge_index: Tensor) -> Tensor:
        return edge_index[:, edge_index[1] != 50]


class FirstEdges(Conv):
    def edges(self, edge_index: Tensor) -> Tensor:
        return edge_index[:, :400]


@dataclass
class Output:
    rows: Tensor


class Wrapped(Conv):
    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return Output(h - h.mean(0))


class Nothing(Conv):
    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return None


class Number(Conv):
    def after(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return h, float(h.mean())


CASES = {
    "rows by a constant": (TwoKinds, "differs"),
    "a mask by numbers": (FirstNodes, "differs"),
    "a branch on the number of nodes": (ManyNodes, "differs"),
    "a branch on a small number of nodes": (MoreThanAFew, "differs"),
    "a source by its number": (WithoutSource, "numbers its nodes"),
    "a target by its number": (WithoutTarget, "differs"),
    "edges by a constant": (FirstEdges, "differs"),
    "an output of another type": (Wrapped, "gives Output"),
    "no output": (Nothing, "no tensor"),
    "a number beside the rows": (Number, "gives float"),
    "mean of the graph": (Readout, "the output differs"),
    "pooling": (Pooled, "one row per node"),
    "a norm of one's own": (OwnNorm, "differs"),
    "attention over all nodes": (Attention, "differs"),
    "dropout_edge": (DroppedEdges, "halowire.DropEdges"),
    "reversed edges": (Undirected, "before the graph is cut"),
    "number of nodes from edges": (Counting, "num_nodes=x.size"),
    "order of the numbers": (Numbered, "numbers its nodes"),
    "number of edges": (SelfLoopsOnly, "differs"),
    "a weight with another number of rows": (OtherTable, "cannot be checked"),
    "TopKPooling": (lambda: nn.Sequential(pyg.TopKPooling(FEATURES)), "TopKPooling"),
    "ChebConv without normalization": (lambda: two(pyg.ChebConv, K=2, normalization=None), "largest degree"),
    "BatchNorm2d": (lambda: two(pyg.GCNConv, nn.BatchNorm2d(HIDDEN)), "BatchNorm2d"),
}


def refuse_here(transport, make) -> str:
    data = cut_data(make_graph(), make_owner(transport.size), transport)
    with pytest.raises(InputError) as caught:
        model = halowire.distribute(make(), data)
        model(data.x, data.edge_index)
    return str(caught.value)


@pytest.mark.parametrize("name", CASES)
def test_refused_with_the_reason(name):
    make, words = CASES[name]
    for message in run_threads(2, lambda transport: refuse_here(transport, make)):
        assert words in message, message


@pytest.mark.parametrize("name", ["mean of the graph", "dropout_edge", "a weight with another number of rows"])
def test_one_worker_refuses_the_same(name):
    make, words = CASES[name]
    assert words in run_threads(1, lambda transport: refuse_here(transport, make))[0]


def test_a_model_that_is_right_is_not_refused_by_a_class_of_the_same_name():
    class HGTConv(Conv):
        """A user's class, not PyG's."""

    def here(transport):
        data = cut_data(make_graph(), make_owner(transport.size), transport)
        return halowire.distribute(HGTConv(), data)(data.x, data.edge_index).shape[1]

    assert run_threads(2, here) == [CLASSES, CLASSES]


def test_a_loss_of_one_worker_alone_is_refused():
    def here(transport):
        data = cut_data(make_graph(), make_owner(transport.size), transport)
        out = halowire.distribute(Conv(), data)(data.x, data.edge_index)
        with pytest.raises(InputError, match=r"data\.mean"):
            out.square().mean().backward()

    run_threads(2, here)


def test_settings_without_effect_are_refused():
    data = run_threads(1, lambda transport: cut_data(make_graph(), make_owner(1), transport))[0]
    with pytest.raises(InputError, match="no effect"):
        halowire.distribute(Conv(), data, settings={"model.hidden": 3})
    with pytest.raises(InputError, match="isolated"):
        halowire.distribute(Conv(), data, recipe="isolated")


def test_a_model_is_distributed_once():
    data = run_threads(1, lambda transport: cut_data(make_graph(), make_owner(1), transport))[0]
    model = halowire.distribute(Conv(), data)
    with pytest.raises(InputError, match="already"):
        halowire.distribute(model, data)
    with pytest.raises(InputError, match="layer 'inner' of the model is distributed already"):
        halowire.distribute(torch.nn.ModuleDict({"inner": model}), data)


def test_hetero_data_without_edges_is_refused():
    from torch_geometric.data import HeteroData

    with pytest.raises(InputError, match="with edge_index"):
        tensors_of(HeteroData())
