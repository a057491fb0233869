"""What `halowire doctor --gpu` compares with the CPU: every recipe, with the models that take it."""

from __future__ import annotations

import torch

from halowire.layers import MODELS
from halowire.proving import Subject
from halowire.proving.proof import FEWEST_WORKERS, MOST_WORKERS
from halowire.proving.recipe_proof import NOT_COUNTED, WAITING, small_run, waits_found
from halowire.proving.subject import profiled
from halowire.training import RECIPES


def test_every_recipe_is_compared():
    recipes = Subject(torch.device("cuda", 0), profiled).recipes
    assert set(recipes) == set(RECIPES)
    runs = {
        workers: {recipe: small_run(recipe, number, workers) for number, recipe in enumerate(recipes)}
        for workers in (FEWEST_WORKERS, MOST_WORKERS)
    }
    assert [recipe for recipe, config in runs[FEWEST_WORKERS].items() if config is None] == ["hybrid"]
    assert all(runs[MOST_WORKERS].values())
    for found in runs.values():
        assert {config.model.name for config in found.values() if config is not None} == set(MODELS)
        assert all(config.recipe == recipe for recipe, config in found.items() if config is not None)


def test_waits_are_counted_for_recipes_that_any_workers_run():
    assert all(small_run(recipe, 0, workers) is not None for recipe in WAITING for workers in (1, 2, 3, 4))


def test_an_epoch_without_waits_was_not_counted():
    assert waits_found("exact", [2, 3], 3).good and waits_found("exact", [2, 3], 3).count_words() == "exact: 3"
    assert waits_found("exact", [4, 2], 3).count_words() == "exact: 4, more than 3"
    for per_epoch in ([], [0, 0], [2, 0]):
        found = waits_found("exact", per_epoch, 3)
        assert not found.good and found.count_words() == f"exact: {NOT_COUNTED}"
