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


def _check(on_sim: Callable[..., list[Any]], config: Config, kind: str = "classes") -> None:
    both = on_sim(train_both, config, kind)
    same_run(both)
    few_waits(both, MOST_WAITS, first=int(kind == "words"))  # sparse features are transposed in the first epoch


QUICK: list[tuple[str, str, dict[str, Any]]] = [
    ("sage", "exact", {"optim__clip": 1.0}),
    ("gat", "sylvie-a", {}),
    ("gcn", "halowire", {"epochs": MEASURE_EVERY + 2}),
    ("gcnii", "varco", {"model__layers": 4, "wire__cover": "on"}),
    ("sage", "two-levels", {"rate__weights": 1}),
    ("sage", "bns", {}),
    ("resgcn", "sylvie-s", {"rate__nodes": "degree"}),
    ("sage", "halowire-late", {"epochs": MEASURE_EVERY + 2}),
]
"""Every kind of wire and every model once."""


@pytest.mark.parametrize(("model", "recipe", "more"), QUICK, ids=[f"{m} {r}" for m, r, _ in QUICK])
def test_training_on_a_device(on_sim: Callable[..., list[Any]], model: str, recipe: str, more: dict[str, Any]) -> None:
    _check(on_sim, config_of(model, recipe, **more))


EVERYTHING = {"wire__first_layer": "local", "wire__cover": "on"}
HOSTED: list[tuple[str, str, dict[str, Any]]] = [
    ("sage", "sylvie-a", {}),
    ("gcn", "halowire", {"wire__cover": "auto"}),
    ("sage", "exact", EVERYTHING),
]


@pytest.mark.parametrize(("model", "recipe", "more"), HOSTED, ids=[f"{m} {r}" for m, r, _ in HOSTED])
def test_once_per_machine_on_a_device(
    on_sim: Callable[..., list[Any]], model: str, recipe: str, more: dict[str, Any]
) -> None:
    both = on_sim(train_both, config_of(model, recipe, mesh__hosts=2, **more), workers=4)
    same_run(both)
    few_waits(both, MOST_WAITS)
    assert all(device.sent["local"] for device, _ in both)


LINKS = {"task__kind": "link", "task__train_negatives": 2}
TASKS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("labels", "sage", "exact", {"task__metric": "roc-auc"}),
    ("values", "gcn", "delta", {}),
    ("links", "gat", "sylvie-a", LINKS),
    ("words", "gcnii", "exact", {"model__layers": 4}),
    ("inductive", "sage", "half", {"task__inductive": True}),
    ("words", "sage", "exact", {"wire__first_layer": "local"}),
]
"""Every kind of task once; words are sparse features."""


@pytest.mark.parametrize(("kind", "model", "recipe", "more"), TASKS, ids=[f"{task[0]} {task[1]}" for task in TASKS])
def test_every_task_on_a_device(
    on_sim: Callable[..., list[Any]], kind: str, model: str, recipe: str, more: dict[str, Any]
) -> None:
    _check(on_sim, config_of(model, recipe, **more), kind)


RECIPES_OF_PARTS = [name for name, recipe in RECIPES.items() if recipe.config.mesh.stages == 1]
REFUSED = [("gat", "bns"), ("gat", "first-layer"), ("gat", "halowire-late")]
WHOLE = [(model, recipe) for model in MODELS for recipe in RECIPES_OF_PARTS if (model, recipe) not in REFUSED]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "recipe"), WHOLE)
def test_every_model_and_recipe(on_sim: Callable[..., list[Any]], model: str, recipe: str) -> None:
    _check(on_sim, config_of(model, recipe, epochs=MEASURE_EVERY + 2))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "recipe"), WHOLE)
@pytest.mark.parametrize("kind", dict.fromkeys(task[0] for task in TASKS))
def test_every_model_recipe_and_task(on_sim: Callable[..., list[Any]], model: str, recipe: str, kind: str) -> None:
    more = {"links": LINKS, "inductive": {"task__inductive": True}}.get(kind, {})
    _check(on_sim, config_of(model, recipe, **more), kind)


SUMS = [name for name, model in MODELS.items() if model.can_sample]
NOT_COVERED = ("isolated", "first-layer", "sylvie-3d", "halowire", "halowire-classic", "delta", "halowire-late")
"""Recipes that send nothing, or whose rows cannot be added up: they have bits of their own, or travel as changes."""
OWN_WIRES: list[tuple[str, str, dict[str, Any]]] = [
    *((m, r, {"wire__first_layer": "local"}) for m in SUMS for r in RECIPES_OF_PARTS if r != "isolated"),
    *((m, r, {"wire__cover": "on"}) for m in SUMS for r in RECIPES_OF_PARTS if r not in NOT_COVERED),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "recipe", "more"), OWN_WIRES, ids=[" ".join([m, r, *more]) for m, r, more in OWN_WIRES]
)
def test_every_model_and_recipe_with_a_wire_of_its_own(
    on_sim: Callable[..., list[Any]], model: str, recipe: str, more: dict[str, Any]
) -> None:
    _check(on_sim, config_of(model, recipe, **more))


WIRES: list[dict[str, Any]] = [
    {"rate__resend_input": True, "rate__ratio": 2.0, "rate__rescale": True},
    {"rate__rows": 0.5, "rate__bits": 1, "rate__code": "levels", "rate__ratio": 2.0},
    {"rate__bits": 4, "rate__columns": "first", "rate__ratio": 2.0, "rate__decay": 0.8},
    {"freshness__mode": "delayed", "freshness__threshold": 0.1, "freshness__smoothing": 0.5},
    {"freshness__mode": "delayed", "freshness__sync_every": 2, "rate__bits": 4, "rate__nodes": "degree"},
    {"wire__cover": "on", "rate__bits": 1, "freshness__mode": "delayed"},
    {"wire__cover": "on", "rate__bits": 1, "rate__sums": 4},
    {"freshness__mode": "late-rows", "freshness__gradients": "late", "freshness__damping": 0.5, "rate__bits": 1},
    {"freshness__mode": "late-rows", "freshness__gradients": "fresh", "freshness__correction": "mean"},
    {"wire__cover": "on", "rate__rows": 0.5, "rate__resend_input": True},
    {"rate__weights": 8, "optim__clip": 0.5, "optim__weight_decay": 0.01},
    {"model__dropout": 0.0, "model__norm": "none", "model__residual": 0.5, "rate__bits": 16},
]
"""Settings of the wire that no recipe has, each at least once."""


@pytest.mark.slow
@pytest.mark.parametrize("more", WIRES, ids=[", ".join(more) for more in WIRES])
def test_every_setting_of_the_wire(on_sim: Callable[..., list[Any]], more: dict[str, Any]) -> None:
    _check(on_sim, config_of("sage", "exact", **more))
