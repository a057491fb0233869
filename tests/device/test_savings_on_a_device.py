"""What need not travel is left out on the simulated device too, with every kind of task and every recipe that can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from halowire.layers import MODELS
from halowire.training import RECIPES, Config
from tests.support.allowed import OF_KIND, allowed
from tests.support.device_case import config_of, few_waits, same_run, train_both
from tests.support.device_graphs import KINDS

MOST_WAITS = 3
SAVINGS: dict[str, dict[str, Any]] = {
    "home": {"wire__first_layer": "local"},
    "squeezed": {"wire__first_layer": "local", "wire__squeeze": "on"},
    "cover": {"wire__cover": "on"},
    "hosts": {"mesh__hosts": 2},
    "all": {"wire__first_layer": "local", "wire__cover": "on", "mesh__hosts": 2},
}
WORKERS = {"home": 2, "squeezed": 2, "cover": 2, "hosts": 4, "all": 4}
"""Two machines of two workers, where rows cross once per machine."""


def _config(model: str, recipe: str, kind: str, saving: str) -> Config:
    return config_of(model, recipe, **OF_KIND.get(kind, {}), **SAVINGS[saving])


def _check(on_sim: Callable[..., list[Any]], model: str, recipe: str, kind: str, saving: str) -> None:
    workers, config = WORKERS[saving], _config(model, recipe, kind, saving)
    both = on_sim(train_both, config, kind, workers=workers)
    same_run(both)
    few_waits(both, MOST_WAITS, first=int(kind == "words"))  # sparse features are transposed in the first epoch
    if workers > 2 and config.freshness.mode != "never":
        assert all(device.sent["local"] for device, _ in both)


def _allowed(model: str, recipe: str, kind: str, saving: str) -> bool:
    return allowed(_config(model, recipe, kind, saving), WORKERS[saving])


OF_TASKS = [(kind, saving) for kind in KINDS for saving in SAVINGS]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "saving"), OF_TASKS)
def test_every_saving_and_task(on_sim: Callable[..., list[Any]], kind: str, saving: str) -> None:
    _check(on_sim, "sage", "exact", kind, saving)


BY_MACHINES = ("hosts", "all")
"""The savings that `test_training.py` does not try with every model and recipe."""
OF_RECIPES = [(recipe, way) for recipe in RECIPES for way in BY_MACHINES if _allowed("sage", recipe, "classes", way)]
OF_MODELS = [(model, way) for model in MODELS for way in BY_MACHINES if _allowed(model, "sylvie-a", "classes", way)]


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "saving"), OF_RECIPES)
def test_every_saving_and_recipe(on_sim: Callable[..., list[Any]], recipe: str, saving: str) -> None:
    _check(on_sim, "sage", recipe, "classes", saving)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "saving"), OF_MODELS)
def test_every_saving_and_model(on_sim: Callable[..., list[Any]], model: str, saving: str) -> None:
    _check(on_sim, model, "sylvie-a", "classes", saving)


def test_the_rules_leave_every_saving_to_every_task() -> None:
    assert all(_allowed("sage", "exact", kind, saving) for kind, saving in OF_TASKS)
    assert {saving for recipe, saving in OF_RECIPES if recipe == "varco"} == set(BY_MACHINES)
    assert {model for model, saving in OF_MODELS if saving == "hosts"} == set(MODELS)
