"""Metrics over all workers, reduced from counts; ROC-AUC from the scores themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.training.metric_names import CLASS_METRICS, VALUE_METRICS
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


def choose_metric(metric: str, multi_label: bool, num_classes: int, regression: bool = False) -> str:
    """Resolve ``auto``, and refuse what has no meaning for the labels."""
    known = VALUE_METRICS if regression else CLASS_METRICS
    if metric == "auto" and regression:
        return "rmse"
    if metric not in ("auto", *known):
        labels = "values" if regression else "classes"
        raise InputError(f"metric {metric} has no meaning for {labels}; use one of {', '.join(known)}")
    if metric == "auto":
        return "micro-f1" if multi_label else "accuracy"
    if metric == "accuracy" and multi_label:
        raise InputError(
            "metric accuracy needs one label per node, but this graph has several; use micro-f1 or roc-auc"
        )
    if metric == "roc-auc" and not multi_label and num_classes != 2:
        raise InputError(f"metric roc-auc needs two classes or several labels per node, not {num_classes} classes")
    return metric


def _gathered_auc(logits: Tensor, y: Tensor, mask: Tensor, transport: Transport) -> float:
    counts = torch.zeros(transport.size, dtype=torch.int64)
    counts[transport.rank] = int(mask.sum())
    transport.all_reduce(counts, "reduction of the metrics", account=None)
    scores = transport.gather_rows(logits[mask], counts.tolist(), "gathering of the scores")
    labels = transport.gather_rows(y[mask], counts.tolist(), "gathering of the labels")
    return float("nan") if scores is None or labels is None else mean_roc_auc(scores, labels)
