"""The metrics by name: for which labels each is, which one is the default, and whether a larger value is better."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from halowire.errors import InputError

CLASS_METRICS = ("accuracy", "micro-f1", "roc-auc")
VALUE_METRICS = ("mae", "rmse", "r2")
HITS = {"hits@1": 1, "hits@10": 10, "hits@50": 50}
"""Hits@K: the share of pairs that are among the K best of their list."""
LINK_METRICS = ("mrr", *HITS)
LOWER_IS_BETTER = ("mae", "rmse")
NO_SHARE = VALUE_METRICS
"""Metrics that are not fractions, and so are not shown in per cent."""


def best_of(metric: str) -> Callable[[Iterable[float]], float]:
    """``min`` or ``max``, whichever picks the best values of ``metric``."""
    return min if metric in LOWER_IS_BETTER else max


def is_better(metric: str, new: float, old: float) -> bool:
    """Whether ``new`` is a better value of ``metric`` than ``old``."""
    return new < old if metric in LOWER_IS_BETTER else new > old


def choose_metric(metric: str, multi_label: bool, num_classes: int, regression: bool = False) -> str:
    """The metric to use: resolve ``auto``, and refuse a metric that has no meaning for the labels."""
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
