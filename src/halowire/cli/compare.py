"""`halowire compare GRAPH --recipes a,b,c`: train every recipe with every seed and compare them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import tyro

from halowire import api
from halowire.cli.parse import GraphArgument, expand, parse
from halowire.training import Config


@dataclass(frozen=True)
class Arguments:
    """Train every recipe with every seed on the same shards; write compare.json and compare.html.

    A run that is finished in --out is not run again, so after Ctrl-C the same command goes on. All settings of
    `halowire train` apply to every recipe; a setting without effect on a recipe is left out of its runs, with a
    warning. --seed is the first of the seeds.
    """

    graph: GraphArgument
    recipes: Annotated[str, tyro.conf.arg(metavar="NAME,NAME,...")]
    """the recipes to compare, separated by commas"""
    out: Annotated[str, tyro.conf.arg(metavar="FOLDER")]
    """folder for compare.json, compare.html, the shards and the runs"""
    workers: int = 1
    """local worker processes of every run"""
    seeds: int = 3
    """number of seeds, counted from --seed"""
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)
    quiet: bool = False
    """no progress; only warnings, errors and the final table"""


def run(argv: list[str]) -> int:
    """Train every recipe with every seed, print the table and write the page that compares them."""
    arguments = parse(Arguments, "compare", argv)
    api.compare(
        arguments.graph, arguments.recipes, arguments.workers, arguments.seeds, arguments.out,
        given(arguments.config, argv), quiet=arguments.quiet,
    )  # fmt: skip
    return 0


def given(config: Config, argv: list[str]) -> dict[str, Any]:
    """The settings that the command line names; only these override a recipe, even if they equal the default."""
    flags = (word for word in expand(argv) if word.startswith("--"))
    named = {word.partition("=")[0].removeprefix("--").replace("-", "_") for word in flags}
    return {name: value for name, value in config.flat().items() if name in named}
