"""A comparison of recipes as `compare.json` keeps it: the numbers of every run, and their means for every recipe.

Over the seeds of a recipe a number has a mean and a standard error. Differences and ratios are taken seed by seed,
between runs on the same shards, and then averaged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from halowire.events import plain
from halowire.files import write_text
from halowire.report.run_files import Json
from halowire.report.units import finite, number

TAKEN = (
    "status", "epochs", "best_epoch", "test", "val", "train_loss", "epoch_seconds", "wait_seconds", "wire_bytes_total",
    "setup_wire_bytes", "eval_wire_bytes", "gradient_bytes_per_epoch", "peak_memory_bytes",
)  # fmt: skip
"""What a run's entry takes from its `summary.json`."""
AVERAGED = (
    "test", "val", "train_loss", "epoch_seconds", "train_seconds", "wait_seconds", "halo_bytes_per_epoch", "halo_bytes",
    "gradient_bytes_per_epoch", "setup_wire_bytes", "epochs",
)  # fmt: skip
"""The numbers of a run's entry that are averaged over the seeds of a recipe."""
REFERENCES = ("exact", "isolated")
"""Recipes that the others are compared with, where they are part of the comparison."""


@dataclass(frozen=True)
class ComparisonSetup:
    """What is compared: ``recipes`` are names with a sentence about each, ``settings`` hold for all of them."""

    graph: str
    source: str
    workers: int
    seeds: list[int]
    recipes: dict[str, str]
    settings: Json
    notes: list[str]


def comparison_record(setup: ComparisonSetup, done: list[tuple[str, int, str, Json]]) -> Json:
    """The content of `compare.json`; ``done`` are the finished runs: (recipe, seed, folder, summary)."""
    runs = [run_numbers(*one) for one in done]
    return {
        "graph": setup.graph,
        "source": setup.source,
        "workers": setup.workers,
        "seeds": setup.seeds,
        "recipes": list(setup.recipes),
        "summaries": setup.recipes,
        "settings": setup.settings,
        "notes": setup.notes,
        "metric": done[0][3].get("metric") if done else None,
        "finished": len(runs) == len(setup.recipes) * len(setup.seeds),
        "runs": runs,
        "aggregated": aggregate(runs, list(setup.recipes)),
    }


def write_record(record: Json, folder: Path) -> Path:
    """Write `compare.json`, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "compare.json"
    write_text(target, json.dumps(record, indent=1) + "\n")
    return target


def run_numbers(recipe: str, seed: int, folder: str, summary: Json) -> Json:
    """The entry of one run; ``halo_bytes``: halo rows and their gradients, of all workers in all training epochs."""
    epochs = number(summary.get("epochs"))
    sent = number(summary.get("wire_bytes_per_epoch"))
    return {
        "recipe": recipe,
        "seed": seed,
        "folder": folder,
        **{key: summary.get(key) for key in TAKEN},
        "train_seconds": plain(number(summary.get("epoch_seconds")) * epochs),
        "halo_bytes_per_epoch": plain(sent),
        "halo_bytes": plain(sent * epochs),
    }


def aggregate(runs: list[Json], recipes: list[str]) -> dict[str, Json]:
    """For every recipe with a finished run {key: {mean, standard_error, runs}}, and the same of how it compares."""
    by = {name: {run["seed"]: run for run in runs if run["recipe"] == name} for name in recipes}
    found: dict[str, Json] = {}
    for name in recipes:
        if not by[name]:
            continue
        found[name] = {key: mean_and_error([number(run[key]) for run in by[name].values()]) for key in AVERAGED}
        for reference in REFERENCES:
            if reference in recipes and reference != name:
                pairs = [(run, by[reference][seed]) for seed, run in by[name].items() if seed in by[reference]]
                found[name][f"to_{reference}"] = {
                    "test": _paired(pairs, "test", lambda mine, other: mine - other),
                    "seconds": _paired(pairs, "epoch_seconds", _ratio),
                    "halo_bytes": _paired(pairs, "halo_bytes", _ratio),
                }
    return found


def mean_and_error(values: list[float]) -> Json:
    """Mean and standard error of the mean; null where there are too few values."""
    values = finite(values)
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return {"mean": fmean(values) if values else None, "standard_error": error, "runs": len(values)}


def mean_of(entry: Any) -> float:
    """The mean in an entry of :func:`mean_and_error`; NaN where there is none."""
    return number(entry.get("mean")) if isinstance(entry, dict) else math.nan


def error_of(entry: Any) -> float:
    """The standard error in an entry of :func:`mean_and_error`; NaN where there is none."""
    return number(entry.get("standard_error")) if isinstance(entry, dict) else math.nan


def metric_of(record: Json) -> str:
    """The metric that the recipes are compared by, as in `summary.json`."""
    return str(record.get("metric") or "accuracy")


def _paired(pairs: list[tuple[Json, Json]], key: str, combine: Callable[[float, float], float]) -> Json:
    """The mean over the seeds of a difference or ratio."""
    return mean_and_error([combine(number(mine[key]), number(other[key])) for mine, other in pairs])


def _ratio(mine: float, other: float) -> float:
    return mine / other if other > 0 else math.nan
