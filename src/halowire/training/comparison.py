"""A comparison runs every recipe with every seed; this module lists these runs and tells which are done already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halowire.errors import InputError
from halowire.inputs import read_json
from halowire.training.config import Config
from halowire.training.job import Job, changes_since
from halowire.training.recipes import RECIPES, recipe_config
from halowire.training.rule import dashed
from halowire.training.rules import idle_settings, refuse

DONE = ("finished", "early-stopped")
"""The ``status`` in `summary.json` of a run that needs no more epochs."""
MOST_SEEDS = 10_000
MAY_DIFFER = ("deadline", "checkpoint.every", "checkpoint.minutes", "checkpoint.keep")
"""Settings without any effect on the numbers of a run."""


@dataclass(frozen=True)
class Cell:
    """One run of a comparison: a recipe with a seed; ``shared`` says that it trains on the shards of all recipes."""

    recipe: str
    seed: int
    folder: Path
    settings: dict[str, Any]
    shared: bool

    @property
    def config(self) -> Config:
        """All settings of the run."""
        return recipe_config(self.recipe).replace(self.settings)

    def summary(self) -> dict[str, Any] | None:
        """The numbers of the run; None while the run is not finished."""
        try:
            found = read_json(self.folder / "summary.json")
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and found.get("status") in DONE else None

    @property
    def begun(self) -> bool:
        """Whether the folder holds a run, finished or not."""
        return (self.folder / "config.json").exists()

    def refuse_other_run(self, workers: int) -> None:
        """Refuse a run folder with other settings than this comparison's: the numbers of its run would not compare."""
        if not self.begun:
            return
        fixed = [name for name in self.config.flat() if name not in MAY_DIFFER]
        for name, then, now in changes_since(Job.read(self.folder), workers, self.config, fixed):
            raise InputError(
                f"the run in {self.folder} had {name} {then}, now it is {now}; compare with the same settings, "
                "choose another --out, or remove that folder"
            )


@dataclass(frozen=True)
class Comparison:
    """The runs of every recipe with every seed; ``settings`` override the settings of the recipes."""

    recipes: tuple[str, ...]
    seeds: tuple[int, ...]
    settings: dict[str, Any]
    folder: Path

    @staticmethod
    def of(recipes: str | Sequence[str], seeds: int, settings: Mapping[str, Any], folder: Path) -> Comparison:
        """Make a comparison, checked before any work is done.

        ``seeds`` is the number of seeds; they count up from ``settings["seed"]``, or from 0.
        """
        names = tuple(name.strip() for name in (recipes.split(",") if isinstance(recipes, str) else recipes))
        if not any(names):
            raise InputError(f"--recipes names no recipe; give some of {', '.join(RECIPES)}, separated by commas")
        for name in names:
            recipe_config(name)
            if names.count(name) > 1:
                raise InputError(f"--recipes names {name} {names.count(name)} times; once is enough")
        if seeds < 1:
            raise InputError(f"--seeds is {seeds}; at least one seed is needed")
        if seeds > MOST_SEEDS:
            raise InputError(f"--seeds is {seeds}; expected at most {MOST_SEEDS}, each of which takes a run per recipe")
        if "recipe" in settings:
            raise InputError("--recipe is for `halowire train`; a comparison takes --recipes, separated by commas")
        rest = {name.replace("-", "_"): value for name, value in settings.items()}
        first = Config().replace(rest).seed
        rest.pop("seed", None)
        found = Comparison(names, tuple(range(first, first + seeds)), rest, folder)
        for cell in found.cells():
            for name, reason in idle_settings(cell.config).items():
                # An override made a setting of the recipe itself idle.
                raise InputError(f"{cell.recipe} cannot run with these overrides: its --{dashed(name)} {reason}")
            try:
                refuse(cell.config)
            except InputError as error:
                raise InputError(f"{cell.recipe} cannot run with these overrides: {error}") from None
        return found

    def cells(self) -> Iterator[Cell]:
        """All runs, seed by seed, so that after each seed all recipes can be compared."""
        cut = Config().replace(self.settings).partition
        idle = {recipe: self.idle(recipe) for recipe in self.recipes}
        for seed in self.seeds:
            for recipe in self.recipes:
                own = {name: value for name, value in self.settings.items() if name not in idle[recipe]}
                own["seed"] = seed
                config = recipe_config(recipe).replace(own)
                # With more than one stage there are fewer parts than workers, so the run cuts the graph itself.
                shared = config.partition == cut and (config.mesh.stages, config.mesh.parts) == (1, 0)
                if shared:
                    # Settings of the graph apply when it is read, before the shards are cut; the run does not read it.
                    own = {name: value for name, value in own.items() if not name.startswith("graph.")}
                yield Cell(recipe, seed, self.folder / f"{recipe}-seed{seed}", own, shared)

    def cut_config(self, seed: int) -> Config:
        """The settings with which the shards of ``seed`` are cut."""
        return Config().replace({**self.settings, "seed": seed})

    def shards(self, seed: int) -> Path:
        """The folder of the shards on which all recipes train with ``seed``."""
        return self.folder / f"shards-seed{seed}"

    def idle(self, recipe: str) -> dict[str, str]:
        """The overrides that have no effect on ``recipe``, each with the reason; the recipe runs without them."""
        found = idle_settings(recipe_config(recipe).replace(self.settings))
        return {name: reason for name, reason in found.items() if name in self.settings}

    def notes(self) -> list[str]:
        """A line for every override whose effect one might not expect.

        Such an override replaces a setting of a recipe, or has no effect on a recipe.
        """
        plain, lines = Config().flat(), []
        idle = {recipe: self.idle(recipe) for recipe in self.recipes}
        for name, value in self.settings.items():
            given = {recipe: recipe_config(recipe).flat()[name] for recipe in self.recipes}
            kept = (plain[name], value)
            own = [f"{one} ({was})" for one, was in given.items() if was not in kept and name not in idle[one]]
            if own:
                flag = f"--{dashed(name)} {value}"
                lines.append(f"{flag} applies to every recipe, also to what sets it itself: {', '.join(own)}")
        for recipe, reasons in idle.items():
            if reasons:
                told = "; ".join(f"--{dashed(name)} (it {why})" for name, why in reasons.items())
                lines.append(f"{recipe} runs without {told}")
        return lines


def refuse_other_comparison(plan: Comparison, source: str, workers: int) -> None:
    """Refuse a folder whose comparison has another graph, number of workers or setting than ``plan``."""
    try:
        before = read_json(plan.folder / "compare.json")
        then, read = before["source"], {k: v for k, v in before["settings"].items() if k.startswith("graph.")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        before = None
    if before is not None:
        now = {name: value for name, value in plan.settings.items() if name.startswith("graph.")}
        if (then, read) != (source, now):
            old, new = (f"{a} {b or ''}".strip() for a, b in ((then, read), (source, now)))
            raise InputError(f"{plan.folder} compares recipes on {old}, now it is {new}; choose another --out")
    for cell in plan.cells():
        cell.refuse_other_run(workers)
