"""A resumed `fit` ends like an uninterrupted one, bit for bit; weights that are used twice are one weight."""

from __future__ import annotations

import copy
import json

import pytest
import torch
import torch_geometric.nn as pyg

import halowire
from halowire.errors import InputError
from halowire.events import read_events
from halowire.wire import run_threads
from tests.support.fit_case import SCRIPTS, make_data, run_script
from tests.support.pyg_case import compare, make_graph, make_owner, run_part, run_plain


@pytest.mark.parametrize(("workers", "recipe"), [(1, "exact"), pytest.param(2, "sylvie-a", marks=pytest.mark.slow)])
def test_two_halves_are_a_whole(tmp_path, workers, recipe):
    same = json.loads(run_script(SCRIPTS / "resume_script.py", tmp_path, workers, recipe).splitlines()[-1])
    assert same == {"predictions": True, "loss": True, "weights": True, "tied": True}


@pytest.mark.parametrize(("before", "now"), [(2, 1), pytest.param(1, 2, marks=pytest.mark.slow)])
def test_another_number_of_workers_goes_on_with_the_same_weights(tmp_path, before, now):
    """Without dropout an exact run has the same losses and predictions on any number of workers, up to rounding."""
    torch.manual_seed(5)
    model, data = pyg.models.GraphSAGE(5, 8, 2, 3), make_data()

    def fit(name, workers, epochs, **more):
        settings = {"epochs": epochs, "eval.every": 3, "optim.lr": 0.02, "threads": 1}
        return halowire.fit(model, data, workers, settings=settings, out=tmp_path / name, quiet=True, **more)

    whole = fit("whole", 1, 6)
    fit("run", before, 3)
    done = fit("run", now, 6, resume=True)
    assert done.summary["workers"] == now and done.summary["epochs"] == 6
    assert abs(done.summary["train_loss"] - whole.summary["train_loss"]) < 1e-4 * whole.summary["train_loss"]
    want, most = whole.predictions, 1e-4 * float(whole.predictions.abs().max())
    torch.testing.assert_close(done.predictions, want, rtol=0, atol=most)
    for one, other in zip(done.model.state_dict().values(), whole.model.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4 * float(other.abs().max()))
    told = [event for event in read_events(tmp_path / "run/events-0.jsonl") if event["event"] == "recut"]
    assert [(event["before"], event["workers"], event["epoch"]) for event in told] == [(before, now, 3)]


class Tied(torch.nn.Module):
    """One weight in two layers, and one layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.SAGEConv(6, 6), pyg.SAGEConv(6, 6)
        self.second.lin_r.weight = self.first.lin_r.weight

    def forward(self, x, edge_index):
        h = self.second(self.first(x, edge_index).relu(), edge_index).relu()
        return self.second(h, edge_index)


def test_tied_weights_equal_the_whole_model():
    torch.manual_seed(4)
    model, graph = Tied(), make_graph()
    want = run_plain(model, graph, ("x", "edge_index"))

    def here(transport):
        return run_part(transport, model, graph, make_owner(3), ("x", "edge_index"))

    compare(run_threads(3, here), want)


def test_another_model_or_setting_is_refused(tmp_path):
    def fit(model, **more):
        settings = {"epochs": 1, **more.pop("settings", {})}
        return halowire.fit(model, make_data(), settings=settings, out=tmp_path / "run", quiet=True, **more)

    model = pyg.models.GraphSAGE(5, 8, 2, 3)
    with pytest.raises(InputError, match="no run to go on with"):
        fit(model, resume=True)
    fit(copy.deepcopy(model))
    with pytest.raises(InputError, match=r"--optim\.lr"):
        fit(model, resume=True, settings={"optim.lr": 0.5})
    with pytest.raises(InputError, match="weights of another model"):
        fit(pyg.models.GraphSAGE(5, 4, 2, 3), resume=True, settings={"epochs": 2})
    assert fit(model, resume=True, settings={"epochs": 2}).summary["epochs"] == 2
