"""A recipe is a named, complete setting."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from halowire.errors import InputError
from halowire.training.config import Config


@dataclass(frozen=True)
class Recipe:
    """A recipe has a name, a ``summary`` of what it does, and the settings that it fills.

    ``optional`` names the settings that are dropped where they have no effect or cannot be, instead of refusing the
    recipe.
    ``own_model`` names the recipe that has the settings for a model of one's own; empty: they are the same.
    """

    name: str
    summary: str
    config: Config
    optional: tuple[str, ...] = ()
    own_model: str = ""


AS_PUBLISHED = {"wire.first_layer": "exchange", "wire.cover": "off"}
"""Published methods send every halo row, in every layer; our own recipes leave out what need not travel."""


def _recipe(
    name: str,
    summary: str,
    optional: tuple[str, ...] = (),
    published: bool = False,
    own_model: str = "",
    **settings: object,
) -> Recipe:
    flat = {key.replace("__", "."): value for key, value in settings.items()} | (AS_PUBLISHED if published else {})
    return Recipe(name, summary, Config(recipe=name).replace(flat), optional, own_model)


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        _recipe("exact", "float32 halo rows of this epoch: the single-machine result, whatever the number of workers"),
        _recipe("half", "bf16 halo rows of this epoch: half the bytes", rate__bits=16),
        _recipe("sylvie-s", "Sylvie: one bit per value, fresh", rate__bits=1, published=True),
        _recipe("sylvie-a", "Sylvie: one bit per value, one epoch late", rate__bits=1, freshness__mode="delayed",
            published=True),
        _recipe("sylvie-3d",
            "Sylvie, adaptive: bits by in-degree and by how fast the loss falls, fresh from a rise to the next fall",
            rate__bits=1, rate__nodes="degree", rate__base="loss", freshness__mode="adaptive", published=True),
        _recipe("pipegcn", "PipeGCN: float32, one epoch late", freshness__mode="delayed", published=True),
        _recipe("bns", "BNS-GCN: a tenth of the halo rows, sampled anew every epoch", rate__rows=0.1, published=True),
        _recipe("varco", "VARCO: a random subset of the columns that grows from 1 in 128 to all",
            rate__schedule="linear", rate__spare_last=True, published=True),
        _recipe("isolated", "no exchange: the edges between workers are left out in training", freshness__mode="never"),
        _recipe("first-layer",
            "the first layer at home, and nothing else sent: later layers train without the edges between workers",
            wire__first_layer="local", freshness__mode="never"),
        _recipe("halowire-late",
            "one bit, one epoch late, corrected: changes of hidden rows, no gradients, the first layer at home",
            wire__first_layer="local", freshness__mode="late-rows", rate__bits=1, rate__code="levels",
            rate__decay=0.8),
        _recipe("halowire",
            "one bit, fresh: changes of hidden rows, the first layer at home, gradients (2 bits) only with more than 3 "
            "layers; for a model of one's own, as halowire-classic",
            optional=("wire.first_layer", "rate.backward_bits", "rate.backward_code"), own_model="halowire-classic",
            wire__first_layer="local", wire__rows="hidden",
            freshness__gradients="shallow",
            rate__bits=1, rate__code="levels", rate__decay=0.8, rate__backward_bits=2, rate__backward_code="minmax"),
        _recipe("halowire-classic",
            "one bit per value, more where rows are narrow, fresh: changes of rows, gradients clipped to their bulk",
            optional=("rate.decay", "rate.gain"), rate__bits=1, rate__share=0.05, rate__backward_code="clipped",
            rate__decay=1.0, rate__gain=0.2),
        _recipe("two-levels", "one bit per value at the row's two conditional means instead of its ends",
            rate__bits=1, rate__code="levels"),
        _recipe("delta", "two-levels on the change of forward rows from 0.8 of their last reconstruction",
            rate__bits=1, rate__code="levels", rate__decay=0.8),
        _recipe("pipeline",
            "the layers split over the workers, chunks of the graph through them; chunks to come as in the last epoch",
            mesh__stages=0, mesh__parts=1),
        _recipe("gnnpipe", "GNNPipe: as pipeline, but chunks to come are seen as in a snapshot of up to 23 epochs ago",
            mesh__stages=0, mesh__parts=1, mesh__history=23, published=True),
        _recipe("hybrid", "pipeline with two parts: stages of two workers that exchange halo rows",
            mesh__stages=0, mesh__parts=2),
        _recipe("gnnpipe-1bit",
            "pipeline with one bit per value between the stages: forward two levels per row, of decayed changes; "
            "backward between each row's ends, unbiased",
            mesh__stages=0, mesh__parts=1, rate__bits=1, rate__code="levels", rate__backward_code="minmax",
            rate__decay=0.8),
    )
}  # fmt: skip


def recipe_config(name: str, own_model: bool = False) -> Config:
    """The settings of the recipe ``name``; ``own_model``: for a model of the user's own."""
    if name not in RECIPES:
        raise InputError(f"recipe {name!r} is unknown; known: {', '.join(RECIPES)}")
    return settings_of(RECIPES[name], own_model).config.replace({"recipe": name})


def settings_of(recipe: Recipe, own_model: bool) -> Recipe:
    """The recipe that has the settings of ``recipe``: another one for some models of one's own."""
    return RECIPES[recipe.own_model] if own_model and recipe.own_model else recipe


@cache
def filled_groups() -> frozenset[str]:
    """The groups of settings that recipes fill: rate, freshness, wire, mesh."""
    default = Config().flat()
    filled = (item for recipe in RECIPES.values() for item in recipe.config.flat().items())
    return frozenset(name.partition(".")[0] for name, value in filled if value != default[name] and "." in name)
