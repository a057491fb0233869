"""``halowire.fit(task="link")``: the loop of plain PyG on the same pairs gives the same rows; decoders are trained."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.data import Data

import halowire
from halowire.graph import draw_negatives, pair_keys, split_links
from halowire.wire import run_threads
from tests.support.pyg_case import FEATURES, assert_close, make_graph

SEED, EPOCHS, WIDTH = 3, 4, 6
SETTINGS = {"epochs": EPOCHS, "eval.every": EPOCHS, "seed": SEED, "optim.lr": 0.02, "task.negatives": 15}


class Weighted(nn.Module):
    """A decoder with weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, WIDTH))

    def forward(self, sources, targets):
        return (sources * self.weight * targets).sum(1)


class Encoder(nn.Module):
    """Uses edge features, so that held-out edges must leave with theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.GATConv(FEATURES, 8, edge_dim=3), pyg.SAGEConv(8, WIDTH)

    def forward(self, x, edge_index, edge_attr):
        return self.second(self.first(x, edge_index, edge_attr).relu(), edge_index)


def make_data() -> Data:
    graph = make_graph()
    return Data(x=graph["x"], edge_index=graph["edge_index"], edge_attr=graph["edge_attr"])


def plain_fit(model: nn.Module, decoder: nn.Module, data: Data) -> float:
    split = split_links(data.edge_index, data.num_nodes, 0.05, 0.1, 15, SEED)
    edge_index, edge_attr, pairs = data.edge_index[:, split.message], data.edge_attr[split.message], split.train
    optimiser = torch.optim.Adam([*model.parameters(), *decoder.parameters()], lr=0.02)
    for epoch in range(EPOCHS):
        known = pair_keys(pairs[0], pairs[1], data.num_nodes)
        negatives = draw_negatives(pairs, 1, known, data.num_nodes, SEED, epoch)[:, 0]
        optimiser.zero_grad()
        rows = model(data.x, edge_index, edge_attr)
        scores = [decoder(rows[pairs[0]], rows[to]) for to in (pairs[1], negatives)]
        loss = torch.cat([F.softplus(-scores[0]), F.softplus(scores[1])]).mean()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        return float(loss), model(data.x, edge_index, edge_attr)


def test_two_workers_equal_a_plain_loop(tmp_path):
    torch.manual_seed(0)
    model, decoder, data = Encoder(), Weighted(), make_data()
    done = halowire.fit(
        model, data, workers=2, task="link", decoder=decoder, inputs=("x", "edge_index", "edge_attr"),
        settings=SETTINGS, out=tmp_path / "run", quiet=True,
    )  # fmt: skip
    plain = copy.deepcopy(model), copy.deepcopy(decoder)
    loss, rows = plain_fit(*plain, data)
    assert done.summary["train_loss"] == pytest.approx(loss, rel=1e-4)
    assert torch.equal(decoder.weight, Weighted().weight), "the given decoder is unchanged"
    assert_close("decoder", done.decoder.weight.detach(), plain[1].weight.detach())
    assert_close("rows", done.predictions, rows)
    assert done.summary["metric"] == "mrr" and 0 < done.summary["test"] <= 1
    assert done.model.state_dict().keys() == model.state_dict().keys()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_loop_of_ones_own_equals_a_plain_loop(workers):
    torch.manual_seed(0)
    model, decoder, data = Encoder(), Weighted(), make_data()
    settings = {"seed": SEED, "task.negatives": 15}

    def here(transport):
        own, scores = copy.deepcopy(model), copy.deepcopy(decoder)
        part, links = halowire.shard_links(data, decoder=scores, settings=settings, transport=transport, device="cpu")
        own = halowire.distribute(own, part)
        optimiser = torch.optim.Adam([*own.parameters(), *scores.parameters()], lr=0.02)
        for epoch in range(EPOCHS):
            optimiser.zero_grad()
            loss = links.loss(own(part.x, part.edge_index, part.edge_attr), epoch)
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            rows = own.eval()(part.x, part.edge_index, part.edge_attr)
            found = links.metrics(rows)
            if workers > 1:
                next(own.parameters())[0] += transport.rank
                with pytest.raises(halowire.InputError, match="no longer the same"):
                    links.metrics(rows)
        transport.settle()
        return part.rows, rows, float(loss.detach()), scores.weight.detach(), found

    plain = copy.deepcopy(model), copy.deepcopy(decoder)
    loss, rows = plain_fit(*plain, data)
    parts = run_threads(workers, here)
    for where, got, value, weight, found in parts:
        assert value == pytest.approx(loss, rel=1e-4)
        assert_close("decoder", weight, plain[1].weight.detach())
        assert_close("rows", got, rows[where])
        assert found == parts[0][-1] and 0 < found["test"] <= 1
    assert sum(len(where) for where, *_ in parts) == data.num_nodes
    with pytest.raises(halowire.InputError, match="no effect on pairs"):
        halowire.shard_links(data, settings={"epochs": 3})


def test_it_learns(tmp_path):
    """On a graph of blocks, edges are predicted far better than by chance."""
    graph = halowire.block_model(300, 4000, 12, 4, seed=1)
    data = Data(x=graph.x, edge_index=graph.edge_index())
    torch.manual_seed(1)
    model = pyg.models.GraphSAGE(12, 32, 2, 16)
    settings = {"epochs": 40, "task.metric": "hits@10"}
    done = halowire.fit(model, data, task="link", settings=settings, out=tmp_path / "run", quiet=True)
    assert done.summary["test"] > 0.2, "10 of 101 by chance"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loss": lambda out, part: out[:, 0]}, "links are learnt by cross entropy"),
        ({"task": "auto", "decoder": Weighted()}, "no effect without task='link'"),
        ({"settings": {"task.kind": "link"}}, "given twice"),
        ({"task": "edges"}, "expected one of"),
    ],
)
def test_mistakes_are_told(tmp_path, change, words):
    given = {"task": "link", "out": tmp_path / "run", "quiet": True} | change
    with pytest.raises(halowire.InputError, match=words):
        halowire.fit(pyg.SAGEConv(FEATURES, 4), make_data(), **given)
