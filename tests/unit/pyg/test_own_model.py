"""A loss of the user's own, one value per row: value and gradients are those of one process, in `fit` and in a loop."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch_geometric.data import Data

import halowire
from halowire.pyg import own_runner
from halowire.pyg.shard_data import cut_data
from halowire.training import Config
from halowire.wire import run_threads
from tests.support.pyg_case import CLASSES, assert_close, make_graph, make_owner
from tests.support.pyg_models import two


def weighted(out, part):
    """Only some rows count, each with a weight of its own."""
    rows = part.train_mask
    return part.importance[rows] * F.cross_entropy(out[rows], part.y[rows], reduction="none")


def make_data() -> dict[str, torch.Tensor]:
    graph, generator = make_graph(), torch.Generator().manual_seed(8)
    nodes = graph["x"].shape[0]
    part = torch.randint(3, (nodes,), generator=generator)
    masks = {f"{name}_mask": part == place for place, name in enumerate(("train", "val", "test"))}
    y = torch.randint(CLASSES, (nodes,), generator=generator)
    return graph | masks | {"y": y, "importance": torch.rand(nodes, generator=generator)}


def make_model() -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(6)
        return two(pyg.SAGEConv)


def plain_result(model: torch.nn.Module, data: Data) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model = copy.deepcopy(model)
    loss = weighted(model(data.x, data.edge_index), data).mean()
    loss.backward()
    return loss.detach(), {name: value.grad for name, value in model.named_parameters()}


def test_in_a_loop_of_ones_own():
    tensors, model = make_data(), make_model()
    loss, grads = plain_result(model, Data(**tensors))

    def here(transport):
        data = cut_data(tensors, make_owner(transport.size), transport)
        own = halowire.distribute(copy.deepcopy(model), data)
        found = data.mean(weighted(own(data.x, data.edge_index), data))
        found.backward()
        return found.detach(), {name: value.grad for name, value in own.named_parameters()}

    for got, found in run_threads(3, here):
        assert_close("loss", got, loss)
        for name, grad in grads.items():
            assert_close(name, found[name], grad)


def test_in_the_loop_of_fit():
    """Each worker's share of loss and gradients, summed; a worker without any counted row takes part too."""
    tensors, model = make_data(), make_model()
    loss, grads = plain_result(model, Data(**tensors))
    owner = make_owner(3)
    owner[tensors["train_mask"] & (owner == 2)] = 0

    def here(transport):
        data = cut_data(tensors, owner, transport)
        data.shard = labelled(data, tensors)
        runner = own_runner(copy.deepcopy(model), data, Config(), weighted, ("x", "edge_index"))
        share = runner.forward_backward(0, lambda parameter: None)
        return share, {name.removeprefix("model."): value.grad for name, value in runner.parameters.items()}

    found = run_threads(3, here)
    assert_close("loss", sum(share for share, _ in found), loss)
    for name, grad in grads.items():
        assert_close(name, sum(each[name] for _, each in found), grad)


def labelled(data, tensors):
    """The shard of a part with its labels, as `fit` cuts it."""
    names = ("y", "train_mask", "val_mask", "test_mask")
    values = {name: tensors[name][data.rows] for name in names}
    counts = {name: int(tensors[f"{name}_mask"].sum()) for name in ("train", "val", "test")}
    return replace(data.shard, **values, counts=counts, num_classes=CLASSES)


class OneValue(torch.nn.Module):
    """A regression model whose output is a list ``[N]``."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(6, 1)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)[:, 0]


@pytest.mark.parametrize("loss", ["mse", "l1"])
def test_fit_learns_values_as_plain_pyg_does(tmp_path, loss):
    tensors = make_data()
    tensors["y"] = tensors["x"].sum(1) + tensors["importance"]
    data = Data(**tensors)
    torch.manual_seed(2)
    model = OneValue()
    settings = {"epochs": 5, "eval.every": 5, "task.loss": loss}
    done = halowire.fit(model, data, workers=2, task="regression", settings=settings, out=tmp_path / "run", quiet=True)
    plain, criterion = copy.deepcopy(model), {"mse": F.mse_loss, "l1": F.l1_loss}[loss]
    optimiser = torch.optim.Adam(plain.parameters(), lr=0.01)
    for _ in range(5):
        optimiser.zero_grad()
        value = criterion(plain(data.x, data.edge_index)[data.train_mask], data.y[data.train_mask])
        value.backward()
        optimiser.step()
    assert done.summary["train_loss"] == pytest.approx(float(value.detach()), rel=1e-4)
    with torch.no_grad():
        want = plain(data.x, data.edge_index)
    assert_close("predictions", done.predictions[:, 0], want)
    rmse = (want - data.y)[data.test_mask].square().mean().sqrt()
    assert done.summary["metric"] == "rmse" and done.summary["test"] == pytest.approx(float(rmse), rel=1e-4)
    assert Path(done.report).exists()


def test_fractions_without_the_task_are_refused_with_the_way_out(tmp_path):
    tensors = make_data()
    tensors["y"] = tensors["importance"]
    with pytest.raises(halowire.InputError, match="task='regression'"):
        halowire.fit(OneValue(), Data(**tensors), out=tmp_path / "run", quiet=True)
