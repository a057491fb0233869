"""Metrics of regression over all workers, from exact sums of all rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from halowire.training.metric_names import VALUE_METRICS
from halowire.wire import Transport


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
