"""The models of PyG's ``examples/`` for nodes: three steps equal plain PyG, or a refusal says what to do."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor, nn

import halowire
from halowire.errors import InputError
from halowire.pyg.shard_data import cut_data
from halowire.wire import run_threads
from tests.support.pyg_case import CLASSES, FEATURES, NODES, assert_close, make_graph, make_owner, seeded
from tests.support.worker_counts import CODED, falling, two_and_three

WIDTH = 8
LABELS = torch.arange(NODES) % CLASSES
MASK = torch.arange(NODES) % 3 == 0


class Layers(nn.Module):
    """Layers one after the other, each with the rows and the edges, as most of the examples are written."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = F.elu(F.dropout(layer(x, edge_index), p=0.0, training=self.training))
        return self.layers[-1](x, edge_index)


class Gcn2(nn.Module):
    """``gcn2_cora.py``: every layer takes the first rows too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.convs = nn.ModuleList(pyg.GCN2Conv(WIDTH, 0.1, 0.5, number + 1) for number in range(3))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = start = self.first(x).relu()
        for conv in self.convs:
            x = conv(x, start, edge_index).relu()
        return self.last(x)


class Dna(nn.Module):
    """``dna.py``: a layer attends over the rows of all layers before it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.convs = nn.ModuleList(pyg.DNAConv(WIDTH, heads=2) for _ in range(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        rows = self.first(x).relu().view(-1, 1, WIDTH)
        for conv in self.convs:
            rows = torch.cat([rows, conv(rows, edge_index).relu().view(-1, 1, WIDTH)], 1)
        return self.last(rows[:, -1])


class Genie(nn.Module):
    """``geniepath.py``: an LSTM goes through the layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.conv, self.depth = pyg.GATConv(WIDTH, WIDTH), nn.LSTM(WIDTH, WIDTH, 1, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        state = (torch.zeros(1, x.shape[0], WIDTH), torch.zeros(1, x.shape[0], WIDTH))
        for _ in range(2):
            x, state = self.depth(torch.tanh(self.conv(x, edge_index)).unsqueeze(0), state)
            x = x[0]
        return self.last(x)


class Jumping(nn.Module):
    """The rows of all layers side by side, as ``JumpingKnowledge`` joins them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.SAGEConv(FEATURES, WIDTH), pyg.SAGEConv(WIDTH, WIDTH)
        self.join, self.last = pyg.JumpingKnowledge("cat"), nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x, edge_index).relu()
        return self.last(self.join([x, self.second(x, edge_index).relu()]))


class Shadow(nn.Module):
    """``shadow.py``: beside the rows of the nodes stands the mean of the graph that is theirs."""

    def __init__(self, every: bool = False) -> None:
        super().__init__()
        self.conv, self.last = pyg.SAGEConv(FEATURES, WIDTH), nn.Linear(2 * WIDTH, CLASSES)
        self.every = every

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, root_n_id: Tensor) -> Tensor:
        x = self.conv(x, edge_index).relu()
        pooled = pyg.global_mean_pool(x, batch)
        return self.last(torch.cat([x, pooled[batch]] if self.every else [x[root_n_id], pooled], dim=-1))


def mean_both_ways(a: int, b: int) -> nn.Module:
    return pyg.DirGNNConv(pyg.SAGEConv(a, b))


MODELS: dict[str, Any] = {
    "gat.py": lambda: Layers(pyg.GATConv(FEATURES, WIDTH, 2), pyg.GATConv(2 * WIDTH, CLASSES, concat=False)),
    "sgc.py": lambda: Layers(pyg.SGConv(FEATURES, CLASSES, K=2, cached=True)),
    "tagcn.py": lambda: Layers(pyg.TAGConv(FEATURES, WIDTH), pyg.TAGConv(WIDTH, CLASSES)),
    "arma.py": lambda: Layers(
        pyg.ARMAConv(FEATURES, WIDTH, num_stacks=3, num_layers=2, shared_weights=True),
        pyg.ARMAConv(WIDTH, CLASSES, num_stacks=3, num_layers=2, shared_weights=True, act=None)),
    "agnn.py": lambda: Layers(pyg.GCNConv(FEATURES, WIDTH), pyg.AGNNConv(requires_grad=False), pyg.AGNNConv(),
                              pyg.GCNConv(WIDTH, CLASSES)),
    "gcn2_cora.py": Gcn2,
    "dna.py": Dna,
    "geniepath.py": Genie,
    "film.py": lambda: Layers(pyg.FiLMConv(FEATURES, WIDTH), pyg.FiLMConv(WIDTH, CLASSES, act=None)),
    "mixhop.py": lambda: Layers(pyg.MixHopConv(FEATURES, WIDTH), pyg.MixHopConv(3 * WIDTH, CLASSES, powers=[1])),
    "dir_gnn.py": lambda: Layers(mean_both_ways(FEATURES, WIDTH), mean_both_ways(WIDTH, CLASSES)),
    "unimp_arxiv.py": lambda: Layers(pyg.TransformerConv(FEATURES, WIDTH, 2, beta=True),
                                     pyg.TransformerConv(2 * WIDTH, CLASSES, 2, concat=False, beta=True)),
    "pmlp.py": lambda: pyg.PMLP(FEATURES, WIDTH, CLASSES, 2, dropout=0.0),
    "ogbn_train.py": lambda: pyg.GraphSAGE(FEATURES, WIDTH, 3, CLASSES, norm="batch"),
    "jumping knowledge": Jumping,
}  # fmt: skip
REFUSED: dict[str, Any] = {
    "graph_unet.py": (lambda: pyg.GraphUNet(FEATURES, WIDTH, CLASSES, 2), r"cannot run on a shard: .*; "),
    "shadow.py": (Shadow, r"write x, not x\[n_id\]"),
    "shadow.py, all nodes": (lambda: Shadow(every=True), "looks at all nodes at once .pooling"),
}


def learn(own: nn.Module, data: Any, cross_entropy: Any) -> tuple[list[Tensor], Tensor]:
    """The gradients and weights of three steps, and the output in evaluation."""
    optimiser, kept = torch.optim.SGD(own.parameters(), lr=0.1), []
    for _ in range(3):
        optimiser.zero_grad()
        out = own.train()(data.x, data.edge_index)
        cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
        kept += [value.grad.clone() for value in own.parameters() if value.grad is not None]
        optimiser.step()
    with torch.no_grad():
        out = own.eval()(data.x, data.edge_index)
    return [*kept, *(value.detach().clone() for value in own.parameters())], out


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_an_example_learns_as_in_plain_pyg(name, workers):
    graph = {key: make_graph()[key] for key in ("x", "edge_index")} | {"y": LABELS, "train_mask": MASK}
    model = seeded(MODELS[name])
    whole = torch.nn.Module()
    vars(whole).update(graph)
    want, rows = learn(copy.deepcopy(model), whole, F.cross_entropy)

    def here(transport):
        data = cut_data(graph, make_owner(workers), transport)
        found, out = learn(halowire.distribute(copy.deepcopy(model), data), data, data.cross_entropy)
        return found, data.gather(out)

    scale = max(float(value.abs().max()) for value in want)
    for found, out in run_threads(workers, here):
        assert_close("output", out, rows)
        for got, value in zip(found, want, strict=True):
            assert_close("gradient or weight", got, value, floor=0.01 * scale)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", CODED)
@pytest.mark.parametrize("name", MODELS)
def test_an_example_learns_by_coded_recipes(name, recipe):
    graph = {key: make_graph()[key] for key in ("x", "edge_index")} | {"train_mask": MASK}
    graph["y"] = graph["x"][:, :CLASSES].argmax(1)  # which can be learnt, also from coded rows
    model = seeded(MODELS[name])

    def here(transport):
        data = cut_data(graph, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data, recipe)
        losses = falling(own, lambda: data.cross_entropy(own(data.x, data.edge_index), data.y, data.train_mask))
        transport.settle()
        return losses

    first, second = run_threads(2, here)
    assert first == second and sum(first[-3:]) < sum(first[:3])


@two_and_three
@pytest.mark.parametrize("name", REFUSED)
def test_an_example_is_refused_with_the_way_out(name, workers):
    def here(transport):
        numbers = {"batch": torch.zeros(NODES, dtype=torch.int64), "root_n_id": torch.arange(NODES)}
        data = cut_data(make_graph() | numbers, make_owner(workers), transport)
        with pytest.raises(InputError, match=REFUSED[name][1]):
            model = halowire.distribute(REFUSED[name][0](), data)
            model(data.x, data.edge_index, data.batch, data.root_n_id)

    run_threads(workers, here)
