"""Recipes: named, complete settings."""

from __future__ import annotations

from dataclasses import dataclass

from halowire.kernels import InputError
from halowire.train.config import Config


@dataclass(frozen=True)
class Recipe:
    """A name, one sentence on when to use it, and the settings it fills."""

    name: str
    summary: str
    config: Config


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("exact", "float32 halo rows of this epoch: the single-machine result, whatever the number of workers",
               Config(recipe="exact")),
    )
}  # fmt: skip


def recipe_config(name: str) -> Config:
    """The settings of the recipe ``name``."""
    if name not in RECIPES:
        raise InputError(f"recipe {name!r} is unknown; known: {', '.join(RECIPES)}")
    return RECIPES[name].config
