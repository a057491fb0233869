"""Graph-parallel training on the simulated device in two real processes: the CPU's results, and few host waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from halowire.layers import MODELS
from halowire.training import RECIPES, Config
from halowire.wire import MEASURE_EVERY
from tests.support.allowed import LINKS, OF_KIND, allowed, refused
from tests.support.device_case import config_of, few_waits, same_run, train_both
from tests.support.device_graphs import KINDS

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
WHOLE = [(m, r) for m in MODELS for r in RECIPES_OF_PARTS if allowed(config_of(m, r))]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "recipe"), WHOLE)
def test_every_model_and_recipe(on_sim: Callable[..., list[Any]], model: str, recipe: str) -> None:
    _check(on_sim, config_of(model, recipe, epochs=MEASURE_EVERY + 2))


LEARNT = [
    (kind, m, r)
    for kind in KINDS
    for m, r in WHOLE
    if kind != "classes" and allowed(config_of(m, r, **OF_KIND.get(kind, {})))
]
"""Every other kind of task with every model and recipe that can learn it."""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "model", "recipe"), LEARNT)
def test_every_model_recipe_and_task(on_sim: Callable[..., list[Any]], kind: str, model: str, recipe: str) -> None:
    _check(on_sim, config_of(model, recipe, **OF_KIND.get(kind, {})), kind)


SAVINGS: list[dict[str, Any]] = [{"wire__first_layer": "local"}, {"wire__cover": "on"}]
OWN_WIRES: list[tuple[str, str, dict[str, Any]]] = [
    (m, r, more)
    for more in SAVINGS
    for m, r in WHOLE
    if allowed(config_of(m, r, **more)) and config_of(m, r, **more) != config_of(m, r)
]
"""Every saving that a recipe has not itself, where its rows allow it."""


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


def test_every_case_is_allowed() -> None:
    cases = [*QUICK, *OWN_WIRES, *(case[1:] for case in TASKS), *(("sage", "exact", more) for more in WIRES)]
    assert not refused(config_of(model, recipe, **more) for model, recipe, more in cases)
    assert not refused((config_of(model, recipe, mesh__hosts=2, **more) for model, recipe, more in HOSTED), workers=4)


def test_the_rules_leave_every_recipe_of_parts_to_graphsage() -> None:
    """Lists of cases are made by the rules: a rule that refuses too much would empty them silently."""
    assert {("sage", recipe) for recipe in RECIPES_OF_PARTS} <= set(WHOLE)
    assert len(LEARNT) > (len(KINDS) - 2) * len(WHOLE)
