"""The task of a node: its class, its labels or its values; the loss over all workers and the metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.errors import InputError
from halowire.events import choose_metric
from halowire.partitioning import Shard
from halowire.training.config import TaskConfig
from halowire.training.metrics import SPLITS, evaluate, evaluate_values
from halowire.wire import Transport

VALUE_LOSSES: dict[str, Callable[..., Tensor]] = {"mse": F.mse_loss, "l1": F.l1_loss, "huber": F.huber_loss}


class Learnt(Protocol):
    """What the training loop needs of a task: of nodes (`Task`) or of links."""

    @property
    def metric(self) -> str:
        """The name of the metric."""

    def loss(self, rows: Tensor, epoch: int = 0, /) -> Tensor:
        """This worker's share of the loss of the owned ``rows``."""

    def evaluate(self, rows: Tensor, transport: Transport, /) -> dict[str, float]:
        """The metric of ``train``, ``val`` and ``test`` over all workers, and others beside it."""


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
        """This worker's share of the loss: its sum over the local training rows, divided by the global count.

        Cross entropy for one label per node; binary cross entropy, averaged over the labels, for several; for values
        the squared, absolute or Huber error, averaged over the columns. The shares of all workers add up to the whole
        graph's mean loss, and so do their gradients.
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
        """The metric of every split (``train``, ``val``, ``test``), and of regression all metrics of val and test."""
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
    """``metric`` of train, val and test under the names of the splits; all others of val and test beside them."""
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
