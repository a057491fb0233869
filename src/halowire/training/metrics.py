"""Metrics over all workers: of classes from counts (ROC-AUC from the scores themselves), of values from exact sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from halowire.events import VALUE_METRICS
from halowire.wire import Transport

SPLITS = ("train", "val", "test")


def accuracy_counts(logits: Tensor, y: Tensor) -> Tensor:
    """(correct, all) of rows ``[m, C]`` against classes ``[m]``."""
    correct = (logits.argmax(1) == y).sum()
    return torch.stack([correct, torch.tensor(y.numel(), device=y.device)])


def f1_counts(logits: Tensor, y: Tensor) -> Tensor:
    """(2 TP, 2 TP + FP + FN) over all labels of rows ``[m, C]``: their ratio is the micro-averaged F1."""
    if y.dim() == 1:
        y = torch.nn.functional.one_hot(y, logits.shape[1])
        predicted = torch.zeros_like(y).scatter_(1, logits.argmax(1, keepdim=True), 1).bool()
    else:
        predicted = logits > 0
    true = y > 0.5
    hit = (predicted & true).sum()
    return torch.stack([2 * hit, predicted.sum() + true.sum()])


def roc_auc(scores: Tensor, y: Tensor) -> float:
    """Area under the ROC curve of ``scores`` ``[m]`` for labels ``[m]`` of 0 and 1; ties count one half."""
    positive = y > 0.5
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if not ones or not zeros:
        return float("nan")
    _, place, counts = torch.unique(scores.double(), return_inverse=True, return_counts=True)
    ends = counts.cumsum(0)
    rank = (ends - (counts - 1) / 2).double()[place]
    return float((rank[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def mean_roc_auc(logits: Tensor, y: Tensor) -> float:
    """ROC-AUC: of class 1 against class 0, or averaged over the labels that have both kinds of rows."""
    if y.dim() == 1:
        return roc_auc(logits[:, 1] - logits[:, 0], y)
    areas = [roc_auc(logits[:, c], y[:, c]) for c in range(y.shape[1])]
    known = [area for area in areas if not math.isnan(area)]
    return sum(known) / len(known) if known else float("nan")


def evaluate(logits: Tensor, y: Tensor, masks: Sequence[Tensor], metric: str, transport: Transport) -> dict[str, float]:
    """The metric of the train, val and test rows over all workers; every worker gets the result."""
    if metric == "roc-auc":
        values = torch.tensor([_gathered_auc(logits, y, mask, transport) for mask in masks], dtype=torch.float64)
        transport.broadcast(values, "broadcast of the metrics")
    else:
        count = accuracy_counts if metric == "accuracy" else f1_counts
        counts = torch.stack([count(logits[mask], y[mask]) for mask in masks]).double().cpu()
        transport.all_reduce(counts, "reduction of the metrics", account=None)
        values = counts[:, 0] / counts[:, 1]
    return dict(zip(SPLITS, values.tolist(), strict=True))


def evaluate_values(out: Tensor, y: Tensor, masks: Sequence[Tensor], transport: Transport) -> dict[str, list[float]]:
    """MAE, RMSE and R2 of rows ``[n, k]`` for every mask, over all workers; every worker gets the result.

    ``MAE = mean |o - y|`` and ``RMSE = sqrt(mean (o - y)^2)`` over all rows and columns; ``R2 = 1 - sum (o - y)^2 /
    sum (y - mean y)^2`` per column, then the mean of the columns; undefined (NaN) where a column does not vary.
    Everything is added up in double precision, the means before the squares around them.
    """
    rows = [(out[mask].double(), y[mask].double()) for mask in masks]
    first = torch.stack([torch.stack([t.sum(0), torch.full_like(t.sum(0), len(t))]) for _, t in rows]).cpu()
    transport.all_reduce(first, "reduction of the metrics", account=None)
    means = (first[:, 0] / first[:, 1]).to(out.device)
    parts = [
        torch.stack([(o - t).abs().sum(0), (o - t).square().sum(0), (t - mean).square().sum(0)])
        for (o, t), mean in zip(rows, means, strict=True)
    ]
    sums = torch.stack(parts).cpu()
    transport.all_reduce(sums, "reduction of the metrics", account=None)
    count = first[:, 1]
    absolute, square, spread = sums[:, 0], sums[:, 1], sums[:, 2]
    quality = torch.where(spread > 0, 1 - square / spread, torch.nan)
    found = ((absolute / count).mean(1), (square / count).mean(1).sqrt(), quality.mean(1))
    return {name: values.tolist() for name, values in zip(VALUE_METRICS, found, strict=True)}


def _gathered_auc(logits: Tensor, y: Tensor, mask: Tensor, transport: Transport) -> float:
    counts = torch.zeros(transport.size, dtype=torch.int64)
    counts[transport.rank] = int(mask.sum())
    transport.all_reduce(counts, "reduction of the metrics", account=None)
    scores = transport.gather_rows(logits[mask], counts.tolist(), "gathering of the scores")
    labels = transport.gather_rows(y[mask], counts.tolist(), "gathering of the labels")
    return float("nan") if scores is None or labels is None else mean_roc_auc(scores, labels)
