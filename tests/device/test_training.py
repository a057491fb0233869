"""Graph-parallel training on the simulated device in two real processes: the CPU's results, and few host waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from halowire.layers import MODELS
from halowire.training import RECIPES, Config
from halowire.wire import MEASURE_EVERY
from tests.support.device_case import config_of, few_waits, same_run, train_both

MOST_WAITS = 3
"""The loss and all that is decided by it are read once; in some epochs the errors of the codes are read too."""


def _check(on_sim: Callable[..., list[Any]], config: Config) -> None:
    both = on_sim(train_both, config)
    same_run(both)
    few_waits(both, MOST_WAITS)


QUICK: list[tuple[str, str, dict[str, Any]]] = [
    ("sage", "exact", {"optim__clip": 1.0}),
    ("gat", "sylvie-a", {}),
    ("gcn", "halowire", {"epochs": MEASURE_EVERY + 2}),
    ("gcnii", "varco", {"model__layers": 4}),
    ("sage", "two-levels", {"rate__weights": 1}),
    ("sage", "bns", {}),
    ("resgcn", "sylvie-s", {"rate__nodes": "degree"}),
]
"""Every kind of wire and every model once."""


@pytest.mark.parametrize(("model", "recipe", "more"), QUICK, ids=[f"{m} {r}" for m, r, _ in QUICK])
def test_training_on_a_device(on_sim: Callable[..., list[Any]], model: str, recipe: str, more: dict[str, Any]) -> None:
    _check(on_sim, config_of(model, recipe, **more))


WHOLE = [(model, recipe) for model in sorted(MODELS) for recipe in RECIPES if RECIPES[recipe].config.mesh.stages == 1]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "recipe"), WHOLE)
def test_every_model_and_recipe(on_sim: Callable[..., list[Any]], model: str, recipe: str) -> None:
    _check(on_sim, config_of(model, recipe, epochs=MEASURE_EVERY + 2))
