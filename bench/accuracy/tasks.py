"""What is run: graphs, cuts, recipes, seeds, and the settings of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from halowire.training import Config, recipe_config

PARTS = 4
CUTS = ("random", "metis")
TELLING = ("exact", "halowire", "halowire-late", "first-layer", "isolated")
"""Recipes that are run first."""
OTHERS = ("sylvie-s", "sylvie-a", "varco", "halowire-classic")
RECIPES = ("exact", "isolated", "first-layer", *OTHERS, "halowire", "halowire-late")
"""All recipes, in the order of the table."""
AT_HOME = ("first-layer", "halowire", "halowire-late")
"""Recipes whose first layer is at home, and what is sent once deflated, as on a slow network; the others send every
row, as when they were measured first."""
SLOPES = {2: "varco, slope 2", 5: "varco"}
"""VARCO's slopes that are compared with the fixed ratio of equal total bytes, and what the runs are called."""
VARCO = (("amazon-computers", "random"), ("wordnet", "random"))
"""Graphs and cuts of that comparison: without the cut edges the first loses nothing, the second most of all."""
CODES = ("sylvie-s", "two-levels", "delta", "halowire-classic")
"""One-bit codes that are compared on their own."""
CODED = (("debian", "random"), ("wordnet", "random"))
"""Graphs and cuts of that comparison: where one bit costs most."""
COMPARED_SEEDS = 3
"""Seeds of both comparisons."""


@dataclass(frozen=True)
class Data:
    """A graph, how long it is trained, and with how many seeds."""

    name: str
    epochs: int
    seeds: int
    undirected: bool = False


GRAPHS = (
    Data("debian", 100, 5),
    Data("wordnet", 100, 3),
    Data("dblp", 100, 5),
    Data("cora", 100, 5),
    Data("pubmed", 100, 5),
    Data("amazon-computers", 200, 5),
    Data("ogbn-arxiv", 200, 3, undirected=True),
)
"""The most telling ones first, the costliest ones last."""
COSTLIEST = "ogbn-arxiv"
"""The graph that is trained on when all others are done."""
MOST_SEEDS = 5
"""No graph has more."""


@dataclass(frozen=True)
class Task:
    """One training run."""

    data: Data
    cut: str
    name: str
    recipe: str
    settings: tuple[tuple[str, object], ...]
    seed: int

    @property
    def key(self) -> str:
        """The name under which the result is kept."""
        return f"{self.data.name}/{self.cut}/{self.name}/{self.seed}"

    @property
    def config(self) -> Config:
        """All settings of the run."""
        settings = {"epochs": self.data.epochs, "model.hidden": 128, "seed": self.seed, "eval.every": 5}
        plain = {"wire.squeeze": "on"} if self.recipe in AT_HOME else {"wire.plain": True}
        return recipe_config(self.recipe).replace(settings | plain | dict(self.settings))

    @property
    def digest(self) -> str:
        """Twelve digits that stand for the settings that are not the defaults; the recipe's name decides nothing."""
        default = Config().flat() | {"recipe": self.recipe}
        changed = {name: value for name, value in self.config.flat().items() if value != default[name]}
        return hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()[:12]


def tasks(graphs: list[str], codes: bool = False) -> Iterator[Task]:
    """All runs: telling recipes first, seed by seed on all graphs; then other recipes, then the comparisons."""
    chosen = [data for data in GRAPHS if not graphs or data.name in graphs]
    for recipes in (TELLING, OTHERS):
        for some in (
            [data for data in chosen if data.name != COSTLIEST],
            [data for data in chosen if data.name == COSTLIEST],
        ):
            for seed in range(MOST_SEEDS):
                for data in some:
                    for cut in CUTS if seed < data.seeds else ():
                        yield from (Task(data, cut, recipe, recipe, (), seed) for recipe in recipes)
    for data in chosen:
        for cut in CUTS:
            for seed in range(COMPARED_SEEDS):
                if (data.name, cut) in VARCO:
                    yield from _varco_tasks(data, cut, seed)
                if codes and (data.name, cut) in CODED:
                    others = (name for name in CODES if name not in RECIPES)
                    yield from (Task(data, cut, name, name, (), seed) for name in others)


def _varco_tasks(data: Data, cut: str, seed: int) -> Iterator[Task]:
    for slope, name in SLOPES.items():
        if name not in RECIPES:
            yield Task(data, cut, name, "varco", (("rate.slope", float(slope)),), seed)
        ratio = 1 / share(data.epochs, slope)
        settings = (("rate.schedule", "constant"), ("rate.ratio", ratio))
        yield Task(data, cut, f"fixed, bytes of slope {slope}", "varco", settings, seed)


def share(epochs: int, slope: float, largest: float = 128.0, width: int = 128) -> float:
    """The share of the columns that VARCO's schedule sends over a whole run."""
    ratios = [max(largest - slope * t * (largest - 1) / max(1, epochs - 2), 1.0) for t in range(epochs)]
    return sum(max(1, int(width / ratio)) for ratio in ratios) / (epochs * width)


def find(name: str, folder: Path | None) -> str:
    """The graph as :func:`halowire.load` takes it."""
    if name == "debian":
        return name
    if folder is None:
        raise SystemExit(f"{name}.npz is not part of the package; give its folder with --data")
    return str(folder / f"{name}.npz")
