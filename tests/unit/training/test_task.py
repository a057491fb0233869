"""The task of a node: metrics and losses against slow, obvious definitions, on one worker and spread over several."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halowire.errors import InputError
from halowire.graph import Graph, check, write_npz
from halowire.graph.npz import read_npz
from halowire.partitioning import Partition, cut
from halowire.training import Task, TaskConfig
from halowire.training.task import evaluate, mean_roc_auc, roc_auc
from halowire.wire import Transport, run_threads
from tests.support.small_graphs import VALUE_NODES, graph_of_values


def slow_auc(scores: list[float], labels: list[int]) -> float:
    """The share of (positive, negative) pairs in the right order; a tie is half right."""
    rows = list(zip(scores, labels, strict=True))
    pairs = [(p, n) for p, positive in rows if positive for n, other in rows if not other]
    if not pairs:
        return math.nan
    return sum(1.0 if p > n else 0.5 if p == n else 0.0 for p, n in pairs) / len(pairs)


@given(st.lists(st.tuples(st.sampled_from([-1.5, 0.0, 0.25, 0.5, 3.0]), st.integers(0, 1)), max_size=30))
def test_roc_auc_is_the_share_of_ordered_pairs(rows):
    scores, labels = [s for s, _ in rows], [label for _, label in rows]
    got, want = roc_auc(torch.tensor(scores), torch.tensor(labels)), slow_auc(scores, labels)
    assert got == pytest.approx(want, nan_ok=True)


def case(multi_label: bool, classes: int = 4) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(60, classes, generator=generator).round(decimals=1)
    if multi_label:
        y = (torch.rand(60, classes, generator=generator) < 0.4).float()
    else:
        y = torch.randint(0, classes, (60,), generator=generator)
    split = torch.randint(0, 3, (60,), generator=generator)
    return logits, y, [split == s for s in range(3)]


def slow_metric(metric: str, logits: torch.Tensor, y: torch.Tensor) -> float:
    if metric == "accuracy":
        return sum(int(row.argmax()) == int(label) for row, label in zip(logits, y, strict=True)) / len(y)
    if metric == "roc-auc":
        return mean_roc_auc(logits, y)
    true = fake = missed = 0
    for row, labels in zip(logits, y, strict=True):
        for value, label in zip(row, labels, strict=True):
            true += int(value > 0 and label == 1)
            fake += int(value > 0 and label == 0)
            missed += int(value <= 0 and label == 1)
    return 2 * true / (2 * true + fake + missed)


CASES = [("accuracy", False, 4), ("micro-f1", True, 4), ("roc-auc", True, 4), ("roc-auc", False, 2)]


def evaluate_here(rank: int, metric: str, multi_label: bool, classes: int) -> dict[str, float]:
    logits, y, masks = case(multi_label, classes)
    transport = Transport()
    mine = torch.arange(60) % transport.size == rank
    return evaluate(logits[mine], y[mine], [mask[mine] for mask in masks], metric, transport)


@pytest.mark.parametrize(("metric", "multi_label", "classes"), CASES)
@pytest.mark.parametrize("workers", [1, 3])
def test_metrics_over_workers(on_workers, workers, metric, multi_label, classes):
    logits, y, masks = case(multi_label, classes)
    for result in on_workers(workers, evaluate_here, metric, multi_label, classes):
        for name, mask in zip(("train", "val", "test"), masks, strict=True):
            assert result[name] == pytest.approx(slow_metric(metric, logits[mask], y[mask])), name


def test_micro_f1_of_single_labels_is_accuracy():
    logits, y, masks = case(multi_label=False)
    f1 = evaluate(logits, y, masks, "micro-f1", Transport())
    assert f1 == pytest.approx(evaluate(logits, y, masks, "accuracy", Transport()))


def slow_error(metric: str, out: torch.Tensor, y: torch.Tensor) -> float:
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
def test_metrics_of_values_over_workers(metric, workers):
    graph = graph_of_values()
    out = graph.y + torch.randn(graph.y.shape, generator=torch.Generator().manual_seed(1))
    owner = torch.randint(workers, (VALUE_NODES,), generator=torch.Generator().manual_seed(2))
    shards = cut(graph, Partition(owner, workers))

    def here(transport):
        shard = shards[transport.rank]
        task = Task.of(shard, TaskConfig(kind="regression", metric=metric), torch.device("cpu"))
        return task.evaluate(out[shard.rows], transport)

    masks = {"train": graph.train_mask, "val": graph.val_mask, "test": graph.test_mask}
    for found in run_threads(workers, here):
        for split, mask in masks.items():
            assert found[split] == pytest.approx(slow_error(metric, out[mask], graph.y[mask]), rel=1e-9)
        for other in {"mae", "rmse", "r2"} - {metric}:
            want = slow_error(other, out[graph.test_mask], graph.y[graph.test_mask])
            assert found[f"test_{other}"] == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("loss", ["mse", "l1", "huber"])
def test_shares_of_the_loss_add_up_to_the_mean_and_its_gradient(loss):
    graph = graph_of_values()
    out = (graph.y + torch.randn(graph.y.shape, generator=torch.Generator().manual_seed(3))).requires_grad_()
    whole = {"mse": torch.nn.MSELoss, "l1": torch.nn.L1Loss, "huber": torch.nn.HuberLoss}[loss]()
    want = whole(out[graph.train_mask], graph.y[graph.train_mask])
    (grad,) = torch.autograd.grad(want, out)
    owner = torch.arange(VALUE_NODES) % 3
    total, found = 0.0, torch.full_like(out, torch.nan)
    for shard in cut(graph, Partition(owner, 3)):
        mine = out.detach()[shard.rows].requires_grad_()
        share = Task.of(shard, TaskConfig(loss=loss), torch.device("cpu")).loss(mine)
        total += float(share.detach())
        found[shard.rows] = torch.autograd.grad(share, mine)[0]
    assert total == pytest.approx(float(want.detach()), rel=1e-5)
    torch.testing.assert_close(found, grad, rtol=1e-5, atol=1e-7)


def test_what_has_no_meaning_is_refused():
    (shard,) = cut(graph_of_values(), Partition(torch.zeros(VALUE_NODES, dtype=torch.int64), 1))
    task = Task.of(shard, TaskConfig(), torch.device("cpu"))
    with pytest.raises(InputError, match="gives 3 columns, but y has 2"):
        task.loss(torch.zeros(VALUE_NODES, 3))
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
    graph = graph_of_values()
    write_npz(graph, tmp_path / "values.npz")
    again = read_npz(tmp_path / "values.npz", "values")
    assert again.regression and again.num_classes == 2 and not again.multi_label
    assert torch.equal(again.y, graph.y)


def test_classes_can_be_learnt_as_values():
    graph = Graph.from_edge_index(torch.zeros(2, 1).long(), 3, y=torch.tensor([4, -1, 2])).as_regression()
    assert graph.num_classes == 1 and graph.y.shape == (3, 1)
    assert torch.isnan(graph.y[1]) and graph.y[0] == 4
