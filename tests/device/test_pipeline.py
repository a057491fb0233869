"""The pipeline and the hybrid on the simulated device in real processes: the CPU's results, and few host waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.device_case import config_of, few_waits, same_run, train_both

MOST_WAITS = 3
"""The loss and all that is decided by it are read once; in some epochs the errors of the codes are read too."""

QUICK: list[tuple[str, str, dict[str, Any]]] = [
    ("gcnii", "gnnpipe", {"model__layers": 4, "mesh__chunks": 3, "optim__clip": 1.0}),
    ("sage", "gnnpipe-1bit", {"mesh__chunks": 2, "mesh__history": 2}),
    ("gcn", "exact", {"mesh__parts": 2, "mesh__chunks": 3, "rate__bits": 1, "rate__ratio": 2.0}),
]
"""Stages with and without initial rows, stages that send changes, chunks of two parts that exchange coded columns."""


@pytest.mark.parametrize(("model", "recipe", "more"), QUICK, ids=[f"{m} {r}" for m, r, _ in QUICK])
def test_stages_and_chunks_on_a_device(
    on_sim: Callable[..., list[Any]], model: str, recipe: str, more: dict[str, Any]
) -> None:
    both = on_sim(train_both, config_of(model, recipe, **more))
    same_run(both)
    few_waits(both, MOST_WAITS)
