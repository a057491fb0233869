"""The task is to learn a node's class, labels or values; here are its loss and its metrics over all workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.errors import InputError
from halowire.events import VALUE_METRICS, choose_metric
from halowire.partitioning import Shard
from halowire.training.config import TaskConfig
from halowire.wire import Transport

SPLITS = ("train", "val", "test")
VALUE_LOSSES: dict[str, Callable[..., Tensor]] = {"mse": F.mse_loss, "l1": F.l1_loss, "huber": F.huber_loss}


class Learnt(Protocol):
    """What the training loop needs of a task, be it on nodes (`Task`) or on links."""

    @property
    def metric(self) -> str:
        """The name of the metric."""

    def loss(self, rows: Tensor, epoch: int = 0, /) -> Tensor:
        """This worker's share of the loss of the owned ``rows``."""

    def evaluate(self, rows: Tensor, transport: Transport, /) -> dict[str, float]:
        """The metric of ``train``, ``val`` and ``test`` over all workers, and further metrics by name."""


@dataclass(frozen=True, eq=False)
class Task:
    """Labels of the owned rows, the loss on the training rows and the metric on every split."""

    y: Tensor
    masks: tuple[Tensor, Tensor, Tensor]
    train_rows: Tensor
    train_count: int
    metric: str
    value_loss: str = ""

    @staticmethod
    def of(shard: Shard, config: TaskConfig, device: torch.device) -> Task:
        """The task that the labels and masks of ``shard`` define."""
        masks = (shard.train_mask, shard.val_mask, shard.test_mask)
        if shard.y is None or any(mask is None for mask in masks):
            raise InputError(
                f"graph {shard.graph!r} has no labels or no split; give it y, train_mask, val_mask and test_mask"
            )
        _refuse_other_labels(shard, config)
        train, val, test = (mask.to(device) for mask in masks if mask is not None)
        kind = choose_metric(config.metric, shard.multi_label, shard.num_classes, shard.regression)
        loss = ("mse" if config.loss == "auto" else config.loss) if shard.regression else ""
        return Task(shard.y.to(device), (train, val, test), train.nonzero()[:, 0], shard.counts["train"], kind, loss)

    def part(self, at: slice) -> Task:
        """The same task on the rows ``at`` alone; the shares of the loss still add up to the whole graph's mean."""
        masks = (self.masks[0][at], self.masks[1][at], self.masks[2][at])
        return replace(self, y=self.y[at], masks=masks, train_rows=masks[0].nonzero()[:, 0])

    def loss(self, logits: Tensor, epoch: int = 0) -> Tensor:
        """This worker's share of the loss: the sum over its training rows, divided by all workers' number of them.

        The loss is cross entropy for one label per node; binary cross entropy, averaged over the labels, for several
        labels; the squared, absolute or Huber error, averaged over the columns, for values. The shares of all workers
        add up to the whole graph's mean loss, and so do their gradients.
        """
        rows, y = logits[self.train_rows], self.y[self.train_rows]
        if y.dim() == 1:
            return F.cross_entropy(rows, y, reduction="sum") / self.train_count
        self._refuse_shape(logits)
        if self.value_loss:
            total = VALUE_LOSSES[self.value_loss](rows, y, reduction="sum")
        else:
            total = F.binary_cross_entropy_with_logits(rows, y, reduction="sum")
        return total / (self.train_count * y.shape[1])

    def evaluate(self, logits: Tensor, transport: Transport) -> dict[str, float]:
        """The metric of every split (``train``, ``val``, ``test``); for regression also all metrics of val and test."""
        if not self.value_loss:
            return evaluate(logits, self.y, self.masks, self.metric, transport)
        self._refuse_shape(logits)
        found = evaluate_values(logits, self.y, self.masks, transport)
        return by_split(found, self.metric)

    def _refuse_shape(self, logits: Tensor) -> None:
        if logits.shape != self.y.shape:
            raise InputError(
                f"the model gives {logits.shape[1]} columns, but y has {self.y.shape[1]}; they must be as many"
            )


def by_split(found: dict[str, list[float]], metric: str) -> dict[str, float]:
    """``metric`` under the names of the splits; every other metric as ``val_<name>`` and ``test_<name>``."""
    split = dict(zip(SPLITS, found[metric], strict=True))
    others = [name for name in found if name != metric]
    return split | {f"{part}_{name}": found[name][SPLITS.index(part)] for name in others for part in SPLITS[1:]}


def _refuse_other_labels(shard: Shard, config: TaskConfig) -> None:
    if config.kind == "regression" and not shard.regression:
        raise InputError("these shards were cut with classes; cut them again: halowire partition --graph.regression")
    if config.kind == "classification" and shard.regression:
        raise InputError("the graph's labels are values to learn; leave --task classification out")
    if config.loss != "auto" and not shard.regression:
        raise InputError(f"--task.loss {config.loss} belongs to regression: classes have cross entropy; leave it out")


def accuracy_counts(logits: Tensor, y: Tensor) -> Tensor:
    """(number of correct rows, number of rows) for logits ``[m, C]`` and classes ``[m]``."""
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
    """ROC-AUC of class 1 against class 0, or averaged over the labels that have both positive and negative rows."""
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
