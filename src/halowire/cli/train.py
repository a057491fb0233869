"""`halowire train GRAPH_OR_DIR` trains a model on a graph spread over workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from halowire import api
from halowire.cli.parse import GraphOrShards, parse
from halowire.training import Config, recipe_config


@dataclass(frozen=True)
class Arguments:
    """Train a graph neural network on a whole graph that is spread over workers."""

    graph: GraphOrShards
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)
    workers: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """number of local worker processes; leave it out under torchrun, which starts the workers"""
    out: Annotated[str | None, tyro.conf.arg(metavar="FOLDER")] = None
    """run folder; by default a new one under runs/"""
    resume: bool = False
    """go on from the newest whole checkpoint in --out, also with another number of workers or another mesh"""
    overwrite: bool = False
    """delete an earlier run in --out"""
    max_restarts: int = 0
    """how often crashed local workers are started again, from the newest checkpoint"""
    tensorboard: bool = False
    """write TensorBoard files too"""
    quiet: bool = False
    """no progress; only warnings, errors and the final table"""


def run(argv: list[str]) -> int:
    """Train a model with the settings of a recipe and of the flags that override it."""
    default = Arguments(graph=tyro.MISSING, config=recipe_config(_recipe(argv)))
    arguments = parse(Arguments, "train", argv, default)
    config = arguments.config
    api.train(
        arguments.graph, arguments.workers, config.recipe, arguments.out, config.flat(), resume=arguments.resume,
        overwrite=arguments.overwrite, max_restarts=arguments.max_restarts, quiet=arguments.quiet,
        tensorboard=arguments.tensorboard,
    )  # fmt: skip
    return 0


def _recipe(argv: list[str]) -> str:
    """The name of the recipe in ``argv``, needed before the flags are parsed because it fills their defaults."""
    found = "exact"
    for place, word in enumerate(argv):
        if word == "--recipe" and place + 1 < len(argv):
            found = argv[place + 1]
        if word.startswith("--recipe="):
            found = word.removeprefix("--recipe=")
    return found
