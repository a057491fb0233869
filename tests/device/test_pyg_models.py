"""PyG models and a model of one's own on the simulated device in two processes, in a loop of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from halowire.events import TRAIN
from halowire.training import RECIPES
from tests.support.allowed import LINKS, OF_KIND, allowed, refused
from tests.support.device_case import few_waits, own_config_of, same_run
from tests.support.device_pyg import HETERO, IN_A_LOOP, LAYER, MODELS, fit_on_both, loop_on_both, waits_of_plain

MOST_WAITS = 6
"""Two for the loss and the gradients of all workers; edges that a layer makes anew are compared with the last ones.
Dropped edges are counted once, and once again in every layer that sorts them."""
QUICK = [
    ("GCNConv", "exact"),
    (LAYER + "SGConv", "exact"),
    (LAYER + "MFConv", "sylvie-a"),
    ("SAGEConv and BatchNorm", "two-levels"),
    ("GATConv", "sylvie-a"),
    ("own", "exact"),
    ("DropEdges", "exact"),
    ("HeteroConv SAGE", "exact"),
    ("HGTConv", "exact"),
]
RECIPES_OF_MODELS = [name for name in RECIPES if allowed(own_config_of(name), caller="distribute")]
"""Recipes without stages, that leave no edges out, and need not know where a model drops values."""
KINDS = ("classes", "labels", "values", "links")


def _check(on_sim: Callable[..., list[Any]], name: str, recipe: str) -> None:
    both = on_sim(loop_on_both, name, recipe)
    same_run(both)
    few_waits(both, MOST_WAITS, first=1)  # the first epoch sorts the edges


@pytest.mark.parametrize(("name", "recipe"), QUICK)
def test_a_model_on_a_device(on_sim: Callable[..., list[Any]], name: str, recipe: str) -> None:
    _check(on_sim, name, recipe)


@pytest.mark.parametrize("recipe", ["exact", pytest.param("half", marks=pytest.mark.slow)])
def test_the_first_layer_at_home_on_a_device(on_sim: Callable[..., list[Any]], recipe: str) -> None:
    """Two layers, one of them at home: the result is the CPU's, and no halo row travels in training."""
    both = on_sim(loop_on_both, "SAGEConv at home", recipe)
    same_run(both)
    few_waits(both, MOST_WAITS, first=1)
    assert [outcome.sent[TRAIN] for pair in both for outcome in pair] == [0] * 4


def test_fit_on_a_device(on_sim: Callable[..., list[Any]]) -> None:
    both = on_sim(fit_on_both, own_config_of("two-levels"))
    same_run(both)
    few_waits(both, MOST_WAITS, first=1)


@pytest.mark.slow
def test_fit_of_links_with_a_codec_of_ones_own(on_sim: Callable[..., list[Any]]) -> None:
    both = on_sim(fit_on_both, own_config_of("exact", **LINKS), "links", True)
    same_run(both)
    few_waits(both, MOST_WAITS, first=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("recipe", RECIPES_OF_MODELS)
def test_fit_of_every_task(on_sim: Callable[..., list[Any]], kind: str, recipe: str) -> None:
    both = on_sim(fit_on_both, own_config_of(recipe, **OF_KIND.get(kind, {})), kind)
    same_run(both)
    few_waits(both, MOST_WAITS, first=1)


WHOLE = [
    (name, recipe)
    for name in (*MODELS, *HETERO)
    for recipe in RECIPES_OF_MODELS
    if allowed(own_config_of(recipe), caller="distribute", drops=name == "DropEdges")
]


LISTED = [(name, "exact") for name in IN_A_LOOP] + [(name, "sylvie-a") for name in IN_A_LOOP if " " not in name]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "recipe"), LISTED)
def test_every_layer_of_pyg(on_sim: Callable[..., list[Any]], name: str, recipe: str) -> None:
    _check(on_sim, LAYER + name, recipe)


TYPES = 3
"""Types of edges of the graph."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), [("RGATConv", 6), ("RGATConv multiplicative", 2 + 2 * TYPES)])
def test_waits_of_layers_that_are_not_compared(on_sim: Callable[..., list[Any]], name: str, most: int) -> None:
    """With one softmax for each type of edges PyG asks for the largest target of each, in both layers."""
    few_waits(on_sim(loop_on_both, LAYER + name, "exact"), most, first=1)
    assert name == "RGATConv" or min(on_sim(waits_of_plain, name)) >= most - 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "recipe"), WHOLE)
def test_every_model_and_recipe(on_sim: Callable[..., list[Any]], name: str, recipe: str) -> None:
    _check(on_sim, name, recipe)


def test_the_rules_leave_what_is_not_for_parts_or_leaves_edges_out() -> None:
    assert not refused((own_config_of(recipe) for _, recipe in (*QUICK, *LISTED)), caller="distribute")
    left_out = {"isolated", "first-layer", "halowire-late", "pipeline", "gnnpipe", "hybrid", "gnnpipe-1bit"}
    assert set(RECIPES) - set(RECIPES_OF_MODELS) == left_out
