"""``HeteroData`` in: one graph with ``edge_type``, as PyG converts it; what would be filled in is refused."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.data import HeteroData

import halowire
from halowire.errors import InputError
from halowire.graph import load
from halowire.pyg.shard_data import tensors_of
from tests.support.pyg_case import assert_close

PAPERS, AUTHORS = 50, 30


def make_data() -> HeteroData:
    generator = torch.Generator().manual_seed(0)
    data = HeteroData()
    data["paper"].x = torch.randn(PAPERS, 5, generator=generator)
    data["author"].x = torch.randn(AUTHORS, 5, generator=generator)
    data["paper"].y = torch.randint(3, (PAPERS,), generator=generator)
    part = torch.arange(PAPERS) % 3
    for place, name in enumerate(("train", "val", "test")):
        data["paper"][f"{name}_mask"] = part == place

    def edges(first: int, second: int, count: int) -> torch.Tensor:
        return torch.stack([torch.randint(n, (count,), generator=generator) for n in (first, second)])

    data["author", "writes", "paper"].edge_index = edges(AUTHORS, PAPERS, 120)
    data["paper", "cites", "paper"].edge_index = edges(PAPERS, PAPERS, 150)
    return data


class Relational(torch.nn.Module):
    """Every kind of edge has weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.RGCNConv(5, 8, 2), pyg.RGCNConv(8, 3, 2)

    def forward(self, x, edge_index, edge_type):
        return self.second(self.first(x, edge_index, edge_type).relu(), edge_index, edge_type)


def test_it_is_the_homogeneous_graph():
    data = make_data()
    want = data.to_homogeneous()
    tensors, num_nodes = tensors_of(data)
    assert num_nodes == PAPERS + AUTHORS
    for name in ("x", "edge_index", "edge_type", "node_type", "train_mask"):
        assert torch.equal(tensors[name], want[name]), name
    graph = load(data)
    assert graph.num_edges == 270 and graph.edge_tensors["edge_type"].bincount().tolist() == [120, 150]
    assert int(graph.train_mask.sum()) == int(data["paper"].train_mask.sum())
    assert int((graph.y == -1).sum()) == AUTHORS


@pytest.mark.slow
def test_fit_equals_plain_pyg(tmp_path):
    data = make_data()
    whole = data.to_homogeneous()
    torch.manual_seed(3)
    model = Relational()
    settings = {"epochs": 3, "eval.every": 3}
    done = halowire.fit(model, data, workers=2, settings=settings, out=tmp_path / "run", quiet=True)
    plain = copy.deepcopy(model)
    optimiser = torch.optim.Adam(plain.parameters(), lr=0.01)
    for _ in range(3):
        optimiser.zero_grad()
        out = plain(whole.x, whole.edge_index, whole.edge_type)
        torch.nn.functional.cross_entropy(out[whole.train_mask], whole.y[whole.train_mask]).backward()
        optimiser.step()
    with torch.no_grad():
        assert_close("predictions", done.predictions, plain(whole.x, whole.edge_index, whole.edge_type))


def test_features_that_some_kinds_lack_are_refused():
    data = make_data()
    del data["author"].x
    data["author"].num_nodes = AUTHORS
    with pytest.raises(InputError, match="nodes of the kind author have no x"):
        load(data)
    data = make_data()
    data["paper", "cites", "paper"].edge_attr = torch.zeros(150, 2)
    with pytest.raises(InputError, match="edges of the kind author/writes/paper have no edge_attr"):
        tensors_of(data)


@pytest.mark.parametrize("key", ["edge_weight", "edge_time"])
def test_every_tensor_that_some_kinds_of_edges_lack_is_refused(key):
    data = make_data()
    data["paper", "cites", "paper"][key] = torch.ones(150)
    with pytest.raises(InputError, match=f"edges of the kind author/writes/paper have no {key}"):
        tensors_of(data)
    data["author", "writes", "paper"][key] = torch.ones(120)
    assert tensors_of(data)[0][key].shape == (270,)


def test_every_tensor_that_some_kinds_of_nodes_lack_is_refused():
    data = make_data()
    data["paper"].pos = torch.ones(PAPERS, 3)
    with pytest.raises(InputError, match="nodes of the kind author have no pos"):
        tensors_of(data)
    data["author"].pos = torch.ones(AUTHORS, 2)
    with pytest.raises(InputError, match="different widths"):
        tensors_of(data)


def test_features_of_different_widths_are_refused():
    data = make_data()
    data["author"].x = torch.zeros(AUTHORS, 2)
    with pytest.raises(InputError, match=r"different widths \(paper \[5\], author \[2\]\)"):
        load(data)


def test_built_in_models_do_not_ignore_the_kinds(tmp_path):
    with pytest.raises(InputError, match="edges have edge_type"):
        halowire.train(make_data(), out=tmp_path / "run", quiet=True)
