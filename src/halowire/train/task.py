"""The task: node classification, its loss over all workers and its metric."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.exchange import Transport
from halowire.kernels import InputError
from halowire.partition import Shard
from halowire.train.metrics import choose_metric, evaluate


@dataclass(frozen=True, eq=False)
class Task:
    """Labels of the owned rows, the loss on the training rows and the metric on every split."""

    y: Tensor
    masks: tuple[Tensor, Tensor, Tensor]
    train_rows: Tensor
    train_count: int
    metric: str

    @staticmethod
    def of(shard: Shard, metric: str, device: torch.device) -> Task:
        """The task that the labels and masks of ``shard`` define."""
        masks = (shard.train_mask, shard.val_mask, shard.test_mask)
        if shard.y is None or any(mask is None for mask in masks):
            raise InputError(
                f"graph {shard.graph!r} has no labels or no split; give it y, train_mask, val_mask and test_mask"
            )
        train, val, test = (mask.to(device) for mask in masks if mask is not None)
        kind = choose_metric(metric, shard.multi_label, shard.num_classes)
        return Task(shard.y.to(device), (train, val, test), train.nonzero()[:, 0], shard.counts["train"], kind)

    def part(self, at: slice) -> Task:
        """The same task on the rows ``at`` alone; the shares of the loss still add up to the whole graph's mean."""
        masks = (self.masks[0][at], self.masks[1][at], self.masks[2][at])
        return replace(self, y=self.y[at], masks=masks, train_rows=masks[0].nonzero()[:, 0])

    def loss(self, logits: Tensor) -> Tensor:
        """This worker's share of the loss: its sum over the local training rows, divided by the global count.

        Cross entropy for one label per node; binary cross entropy, averaged over the labels, for several. The shares
        of all workers add up to the whole graph's mean loss, and so do their gradients.
        """
        rows, y = logits[self.train_rows], self.y[self.train_rows]
        if y.dim() == 1:
            return F.cross_entropy(rows, y, reduction="sum") / self.train_count
        total = F.binary_cross_entropy_with_logits(rows, y, reduction="sum")
        return total / (self.train_count * y.shape[1])

    def evaluate(self, logits: Tensor, transport: Transport) -> dict[str, float]:
        """The metric of every split, over all workers."""
        return evaluate(logits, self.y, self.masks, self.metric, transport)
