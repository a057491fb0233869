"""What is run: graphs, cuts, recipes, seeds, and the settings of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PARTS = 4
CUTS = ("metis", "random")
RECIPES = ("exact", "isolated", "sylvie-s", "sylvie-a", "varco", "halowire")
SLOPES = {2: "varco, slope 2", 5: "varco"}
"""VARCO's slopes that are compared with the fixed ratio of equal total bytes, and what the runs are called."""
VARCO = (("amazon-computers", "random"), ("wordnet", "random"))
"""Graphs and cuts of that comparison: without the cut edges the first loses nothing, the second most of all."""
CODES = ("sylvie-s", "two-levels", "delta", "halowire")
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
    Data("cora", 100, 5),
    Data("pubmed", 100, 5),
    Data("amazon-computers", 200, 5),
    Data("dblp", 100, 5),
    Data("debian", 100, 3),
    Data("wordnet", 100, 3),
)


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


def tasks(graphs: list[str], codes: bool = False) -> Iterator[Task]:
    """All runs, small graphs first, all recipes of a seed together; those of the ``codes`` if they are wanted."""
    for data in GRAPHS:
        if graphs and data.name not in graphs:
            continue
        for cut in CUTS:
            for seed in range(data.seeds):
                for recipe in RECIPES:
                    yield Task(data, cut, recipe, recipe, (), seed)
                if (data.name, cut) in VARCO and seed < COMPARED_SEEDS:
                    yield from _varco_tasks(data, cut, seed)
                if codes and (data.name, cut) in CODED and seed < COMPARED_SEEDS:
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
