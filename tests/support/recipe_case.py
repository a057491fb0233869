"""A small run of any recipe on resident workers, as the command would make it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from halowire.graph import block_model
from halowire.partitioning import cut, partition
from halowire.training import RECIPES as PUBLISHED
from halowire.training import Config, GraphParallel, Staged, Trainer, mesh_of, pipelined, recipe_config
from halowire.wire import Transport

GRAPH = {"nodes": 200, "edges": 1600, "features": 8, "classes": 4, "seed": 6}
SMALL: dict[str, Any] = {"model.hidden": 16, "epochs": 8, "eval.every": 4, "checkpoint.every": 2, "seed": 3}
STAGED: dict[str, Any] = {"model.name": "gcnii", "model.layers": 4}
# With the first layer at home nothing would travel that a memory of changes is kept of.
PLAIN: dict[str, Any] = {"wire.plain": True}
RECIPES: dict[str, dict[str, Any]] = {
    "exact": {}, "sylvie-a": {}, "halowire": {}, "halowire-classic": PLAIN, "varco": {},
    "two-levels": {"rate.weights": 1}, "bns": {}, "gnnpipe": STAGED, "hybrid": STAGED,
}  # fmt: skip
"""Recipes of every kind, each with the settings that make it small."""
ALL = {name: RECIPES.get(name, STAGED if name.startswith(("gnnpipe", "pipeline")) else {}) for name in PUBLISHED}
"""All recipes, each with the settings that make it small."""


def config_of(recipe: str, **settings: object) -> Config:
    """The settings of ``recipe``, made small; ``settings`` have ``__`` for the dot."""
    more = {key.replace("__", "."): value for key, value in settings.items()}
    return recipe_config(recipe).replace(SMALL | ALL[recipe] | more)


def recipe_trainer(rank: int, run: str, config: Config, transport: Transport | None = None) -> Trainer:
    """The trainer of this worker."""
    graph = block_model(*GRAPH.values())
    transport = transport or Transport()
    mesh = mesh_of(config, transport.size)
    shard = cut(graph, partition(graph, mesh.parts, method="random", seed=1))[rank % mesh.parts]
    if pipelined(config, mesh):
        return Trainer(Staged(shard, shard, config, mesh, transport), config, transport, Path(run))
    return Trainer(GraphParallel(shard, shard, config, transport), config, transport, Path(run))
