"""Metrics against slow, obvious definitions, on one worker and spread over several."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halowire.errors import InputError
from halowire.events import choose_metric
from halowire.training.metrics import evaluate, mean_roc_auc, roc_auc
from halowire.wire import Transport


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


def test_metrics_without_meaning_are_refused():
    assert choose_metric("auto", False, 5) == "accuracy"
    assert choose_metric("auto", True, 5) == "micro-f1"
    with pytest.raises(InputError, match="one label per node"):
        choose_metric("accuracy", True, 5)
    with pytest.raises(InputError, match="two classes"):
        choose_metric("roc-auc", False, 5)
