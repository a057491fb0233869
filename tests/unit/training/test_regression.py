"""Regression: metrics and losses against slow, obvious definitions, on one worker and spread over several."""

from __future__ import annotations

import math

import pytest
import torch

from halowire.errors import InputError
from halowire.graph import Graph, check, write_npz
from halowire.graph.npz import read_npz
from halowire.partitioning import Partition, cut
from halowire.training import Task, TaskConfig
from halowire.wire import Transport, run_threads
from tests.support.value_graph import NODES, make_graph


def slow(metric: str, out: torch.Tensor, y: torch.Tensor) -> float:
    errors = [[float(o) - float(t) for o, t in zip(a, b, strict=True)] for a, b in zip(out, y, strict=True)]
    flat = [value for row in errors for value in row]
    if metric == "mae":
        return sum(map(abs, flat)) / len(flat)
    if metric == "rmse":
        return math.sqrt(sum(value**2 for value in flat) / len(flat))
    found = []
    for column in range(y.shape[1]):
        values = [float(value) for value in y[:, column]]
        mean = sum(values) / len(values)
        lost = sum(row[column] ** 2 for row in errors)
        found.append(1 - lost / sum((value - mean) ** 2 for value in values))
    return sum(found) / len(found)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("metric", ["mae", "rmse", "r2"])
def test_metrics_over_all_workers(metric, workers):
    graph = make_graph()
    out = graph.y + torch.randn(graph.y.shape, generator=torch.Generator().manual_seed(1))
    owner = torch.randint(workers, (NODES,), generator=torch.Generator().manual_seed(2))
    shards = cut(graph, Partition(owner, workers))

    def here(transport):
        shard = shards[transport.rank]
        task = Task.of(shard, TaskConfig(kind="regression", metric=metric), torch.device("cpu"))
        return task.evaluate(out[shard.rows], transport)

    masks = {"train": graph.train_mask, "val": graph.val_mask, "test": graph.test_mask}
    for found in run_threads(workers, here):
        for split, mask in masks.items():
            assert found[split] == pytest.approx(slow(metric, out[mask], graph.y[mask]), rel=1e-9)
        for other in {"mae", "rmse", "r2"} - {metric}:
            want = slow(other, out[graph.test_mask], graph.y[graph.test_mask])
            assert found[f"test_{other}"] == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("loss", ["mse", "l1", "huber"])
def test_shares_of_the_loss_add_up_to_the_mean_and_its_gradient(loss):
    graph = make_graph()
    out = (graph.y + torch.randn(graph.y.shape, generator=torch.Generator().manual_seed(3))).requires_grad_()
    whole = {"mse": torch.nn.MSELoss, "l1": torch.nn.L1Loss, "huber": torch.nn.HuberLoss}[loss]()
    want = whole(out[graph.train_mask], graph.y[graph.train_mask])
    (grad,) = torch.autograd.grad(want, out)
    owner = torch.arange(NODES) % 3
    total, found = 0.0, torch.full_like(out, torch.nan)
    for shard in cut(graph, Partition(owner, 3)):
        mine = out.detach()[shard.rows].requires_grad_()
        share = Task.of(shard, TaskConfig(loss=loss), torch.device("cpu")).loss(mine)
        total += float(share.detach())
        found[shard.rows] = torch.autograd.grad(share, mine)[0]
    assert total == pytest.approx(float(want.detach()), rel=1e-5)
    torch.testing.assert_close(found, grad, rtol=1e-5, atol=1e-7)


def test_what_has_no_meaning_is_refused():
    (shard,) = cut(make_graph(), Partition(torch.zeros(NODES, dtype=torch.int64), 1))
    task = Task.of(shard, TaskConfig(), torch.device("cpu"))
    with pytest.raises(InputError, match="gives 3 columns, but y has 2"):
        task.loss(torch.zeros(NODES, 3))
    with pytest.raises(InputError, match="accuracy has no meaning for values"):
        Task.of(shard, TaskConfig(metric="accuracy"), torch.device("cpu"))
    with pytest.raises(InputError, match="leave --task classification out"):
        Task.of(shard, TaskConfig(kind="classification"), torch.device("cpu"))
    flat = Graph.from_edge_index(torch.zeros(2, 1).long(), 3, y=torch.tensor([0, 1, 1]))
    with pytest.raises(InputError, match="belongs to regression"):
        _refused(flat, TaskConfig(loss="l1"))
    with pytest.raises(InputError, match="mae has no meaning for classes"):
        _refused(flat, TaskConfig(metric="mae"))
    with pytest.raises(InputError, match="cut with classes"):
        _refused(flat, TaskConfig(kind="regression"))


def _refused(graph: Graph, config: TaskConfig) -> None:
    mask = torch.tensor([True, False, False])
    (shard,) = cut(graph.with_split(mask, mask.roll(1), mask.roll(2)), Partition(torch.zeros(3).long(), 1))
    Task.of(shard, config, torch.device("cpu"))


def test_values_that_do_not_vary_have_no_r2():
    graph = Graph.from_edge_index(torch.zeros(2, 1).long(), 3, y=torch.ones(3), regression=True)
    mask = torch.tensor([True, False, False])
    (shard,) = cut(graph.with_split(mask, mask.roll(1), mask.roll(2)), Partition(torch.zeros(3).long(), 1))
    task = Task.of(shard, TaskConfig(metric="r2"), torch.device("cpu"))
    assert math.isnan(task.evaluate(torch.zeros(3, 1), Transport())["val"])


def test_unlabelled_nodes_are_refused_in_a_mask_and_kept_elsewhere():
    y = torch.tensor([1.5, torch.nan, 2.5])
    graph = Graph.from_edge_index(torch.zeros(2, 1).long(), 3, y=y, regression=True)
    check(graph.with_split(torch.tensor([True, False, False]), None, None))
    with pytest.raises(InputError, match="1 unlabelled nodes"):
        check(graph.with_split(torch.tensor([True, True, False]), None, None))


def test_a_file_keeps_its_values(tmp_path):
    graph = make_graph()
    write_npz(graph, tmp_path / "values.npz")
    again = read_npz(tmp_path / "values.npz", "values")
    assert again.regression and again.num_classes == 2 and not again.multi_label
    assert torch.equal(again.y, graph.y)


def test_classes_can_be_learnt_as_values():
    graph = Graph.from_edge_index(torch.zeros(2, 1).long(), 3, y=torch.tensor([4, -1, 2])).as_regression()
    assert graph.num_classes == 1 and graph.y.shape == (3, 1)
    assert torch.isnan(graph.y[1]) and graph.y[0] == 4
