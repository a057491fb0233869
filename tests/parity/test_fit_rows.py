"""`fit` trains weights with a row for each node: each worker its own rows, saved and given back in the user's order."""

from __future__ import annotations

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import Data

import halowire
from tests.support.fit_case import make_data

NODES, CLASSES = 120, 3


class Rows(nn.Module):
    """A table of rows, a bias for each node, and weights that all workers share."""

    def __init__(self, sparse: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(NODES, 8, sparse=sparse)
        self.bias = nn.Parameter(torch.zeros(NODES, CLASSES))
        self.conv = pyg.SAGEConv(8, CLASSES)

    def forward(self, n_id: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(self.table(n_id), edge_index) + self.bias


def fitted(folder, workers: int, epochs: int, model: nn.Module, recipe: str = "exact", **more):
    data = make_data()
    data.n_id = torch.arange(NODES)
    settings = {"epochs": epochs, "eval.every": 3, "optim.lr": 0.02, "optim.clip": 0.5, "threads": 1}
    return halowire.fit(model, data, workers, recipe, settings=settings, out=folder, quiet=True, **more)


def built(sparse: bool = False) -> nn.Module:
    torch.manual_seed(0)
    return Rows(sparse)


def same(found, want, tolerance: float) -> None:
    values = zip(found.model.state_dict().values(), want.model.state_dict().values(), strict=True)
    for one, other in (*values, (found.predictions, want.predictions)):
        assert one.shape == other.shape
        assert float((one - other).abs().max()) <= tolerance * float(other.abs().max())


@pytest.mark.parametrize(
    ("before", "now", "sparse"),
    [(2, 1, True), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(3, 2, False), (1, 3, False)])],
)
def test_rows_go_to_another_number_of_workers(tmp_path, before, now, sparse):
    """A checkpoint holds the rows, and the optimiser's state of them, of all nodes."""
    want = fitted(tmp_path / "whole", 1, 6, built())
    fitted(tmp_path / "run", before, 3, built(sparse))
    same(fitted(tmp_path / "run", now, 6, built(sparse), resume=True), want, 1e-4)


@pytest.mark.slow
def test_two_halves_are_a_whole_bit_for_bit(tmp_path):
    want = fitted(tmp_path / "whole", 2, 6, built(), "sylvie-a")
    fitted(tmp_path / "run", 2, 3, built(), "sylvie-a")
    same(fitted(tmp_path / "run", 2, 6, built(), "sylvie-a", resume=True), want, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["halowire", "sylvie-a", "varco"])
def test_coded_rows_learn(tmp_path, recipe):
    done = fitted(tmp_path / "run", 2, 30, built(), recipe)
    assert done.summary["train_loss"] < 0.6


@pytest.mark.slow
def test_light_gcn_learns_links(tmp_path):
    data = Data(edge_index=make_data().edge_index, num_nodes=NODES)
    torch.manual_seed(1)
    model = pyg.LightGCN(NODES, 8, 2)
    settings = {"epochs": 4, "optim.lr": 0.05, "threads": 1}
    one, two = (
        halowire.fit(model, data, workers, task="link", settings=settings, out=tmp_path / str(workers), quiet=True)
        for workers in (1, 2)
    )
    assert one.predictions.shape == (NODES, 8)
    same(two, one, 1e-4)
