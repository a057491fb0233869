"""Every setting that no recipe has, at least once on the simulated device: the CPU's results, and few host waits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from halowire.training import Config
from tests.support.allowed import LINKS, refused
from tests.support.device_case import config_of, few_waits, same_run, train_both

MOST_WAITS = 3
Case = tuple[str, dict[str, Any]]
"""The kind of the graph, and the settings."""
LATE = {"freshness__mode": "late-rows", "rate__bits": 1}
OF_RATE: list[dict[str, Any]] = [
    {"rate__bits": 1, "rate__narrow_bits": "4/2"},
    {"rate__bits": 1, "rate__narrow_code": "levels/clipped"},
    {"rate__bits": 8, "rate__layers": "1:4/1,2:2/16"},
    {"rate__ratio": 2.0, "rate__layer_ratios": "1:5"},
    {"rate__schedule": "budget", "rate__budget": 58528.0},
    {"rate__schedule": "steps", "rate__steps": "0:4,2:1"},
    {"rate__schedule": "exponential", "rate__max_ratio": 8.0, "rate__min_ratio": 2.0},
    {"rate__bits": 1, "rate__code": "clipped"},
]
OF_FRESHNESS: list[dict[str, Any]] = [
    {**LATE, "freshness__correction": "none"},
    {**LATE, "freshness__layers": "2:affine", "freshness__correction": "none"},
    {"freshness__gradients": "none", "wire__rows": "hidden"},
    {**LATE, "freshness__gradients": "none", "wire__rows": "narrow", "freshness__correction": "none"},
    {"wire__plain": True, "rate__bits": 1},
]
OF_OPTIM: list[dict[str, Any]] = [
    {"optim__schedule": "cosine", "optim__warmup": 1},
    {"optim__schedule": "linear"},
    {"optim__schedule": "step", "optim__step_every": 2, "optim__step_factor": 0.5},
]
OF_TASKS: list[Case] = [
    *(("values", {"task__loss": loss}) for loss in ("l1", "huber", "mse")),
    *(("values", {"task__metric": metric}) for metric in ("mae", "rmse", "r2")),
    *(("labels", {"task__metric": metric}) for metric in ("micro-f1", "roc-auc")),
    *(("links", {**LINKS, "task__metric": metric, "task__negatives": 20}) for metric in ("mrr", "hits@1", "hits@10")),
]
OF_CLASSES: list[Case] = [("classes", more) for more in (*OF_RATE, *OF_FRESHNESS, *OF_OPTIM)]
STAGES: dict[str, Any] = {"model__layers": 4, "mesh__stages": 2, "mesh__split": "1,3", "mesh__chunks": 2}


def _names(cases: list[Case]) -> list[str]:
    return [", ".join([kind, *(f"{name} {value}" for name, value in more.items())]) for kind, more in cases]


@pytest.mark.slow
@pytest.mark.parametrize("case", [*OF_CLASSES, *OF_TASKS], ids=_names([*OF_CLASSES, *OF_TASKS]))
def test_every_other_setting(on_sim: Callable[..., list[Any]], case: Case) -> None:
    kind, more = case
    both = on_sim(train_both, config_of("sage", "exact", **more), kind)
    same_run(both)
    few_waits(both, MOST_WAITS)


@pytest.mark.slow
def test_a_split_of_ones_own(on_sim: Callable[..., list[Any]]) -> None:
    both = on_sim(train_both, config_of("gcn", "exact", **STAGES))
    same_run(both)
    few_waits(both, MOST_WAITS)


@pytest.mark.slow
def test_bits_that_follow_the_clock(on_sim: Callable[..., list[Any]]) -> None:
    """How fast the loss falls per second differs from run to run, and with it the bits: only waits can be held to."""
    both = on_sim(train_both, config_of("sage", "exact", rate__base="loss-per-second", rate__bits=2))
    few_waits(both, MOST_WAITS)
    assert all(math.isfinite(device.loss) for device, _ in both)


def _configs() -> list[Config]:
    settings = [more for _, more in (*OF_CLASSES, *OF_TASKS)]
    return [config_of("sage", "exact", **more) for more in settings] + [config_of("gcn", "exact", **STAGES)]


def test_every_case_is_allowed() -> None:
    assert not refused(_configs())
