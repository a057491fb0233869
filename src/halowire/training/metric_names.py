"""The metrics by name: which labels each is for, and whether more of it is better."""

from __future__ import annotations

from collections.abc import Callable, Iterable

CLASS_METRICS = ("accuracy", "micro-f1", "roc-auc")
VALUE_METRICS = ("mae", "rmse", "r2")
HITS = {"hits@1": 1, "hits@10": 10, "hits@50": 50}
"""Hits@K: the share of pairs that are among the K best of their list."""
LINK_METRICS = ("mrr", *HITS)
LOWER_IS_BETTER = ("mae", "rmse")
NO_SHARE = VALUE_METRICS
"""Metrics that are no fractions, so that per cent of them have no meaning."""


def best_of(metric: str) -> Callable[[Iterable[float]], float]:
    """``min`` or ``max``, whichever picks the best values of ``metric``."""
    return min if metric in LOWER_IS_BETTER else max


def is_better(metric: str, new: float, old: float) -> bool:
    """Whether ``new`` is a better value of ``metric`` than ``old``."""
    return new < old if metric in LOWER_IS_BETTER else new > old
