"""The numbers of a comparison: those of every run, and over the seeds of a recipe their mean and standard error.

Differences and ratios are taken seed by seed, between runs on the same shards, and then averaged.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev

from halowire.report.run import Json
from halowire.report.units import number

TAKEN = (
    "status", "epochs", "best_epoch", "test", "val", "train_loss", "epoch_seconds", "wait_seconds", "wire_bytes_total",
    "setup_wire_bytes", "eval_wire_bytes", "gradient_bytes_per_epoch", "peak_memory_bytes",
)  # fmt: skip
"""What a run's entry takes from its `summary.json`."""
AVERAGED = (
    "test", "val", "train_loss", "epoch_seconds", "train_seconds", "wait_seconds", "halo_bytes_per_epoch", "halo_bytes",
    "gradient_bytes_per_epoch", "setup_wire_bytes", "epochs",
)  # fmt: skip
REFERENCES = ("exact", "isolated")


def run_numbers(recipe: str, seed: int, folder: str, summary: Json) -> Json:
    """The entry of one run; ``halo_bytes``: halo rows and their gradients of all training epochs and workers."""
    epochs = number(summary.get("epochs"))
    sent = number(summary.get("wire_bytes_per_epoch"))
    return {
        "recipe": recipe,
        "seed": seed,
        "folder": folder,
        **{key: summary.get(key) for key in TAKEN},
        "train_seconds": known(number(summary.get("epoch_seconds")) * epochs),
        "halo_bytes_per_epoch": known(sent),
        "halo_bytes": known(sent * epochs),
    }


def aggregate(runs: list[Json], recipes: list[str]) -> dict[str, Json]:
    """For every recipe with a finished run: {key: {mean, standard_error, runs}}, and how it compares."""
    by = {name: {run["seed"]: run for run in runs if run["recipe"] == name} for name in recipes}
    found: dict[str, Json] = {}
    for name in recipes:
        if not by[name]:
            continue
        found[name] = {key: spread([number(run[key]) for run in by[name].values()]) for key in AVERAGED}
        for reference in REFERENCES:
            if reference in recipes and reference != name:
                pairs = [(run, by[reference][seed]) for seed, run in by[name].items() if seed in by[reference]]
                found[name][f"to_{reference}"] = {
                    "test": paired(pairs, "test", lambda mine, other: mine - other),
                    "seconds": paired(pairs, "epoch_seconds", ratio),
                    "halo_bytes": paired(pairs, "halo_bytes", ratio),
                }
    return found


def paired(pairs: list[tuple[Json, Json]], key: str, combine: Callable[[float, float], float]) -> Json:
    """The mean over the seeds of a difference or ratio."""
    return spread([combine(number(mine[key]), number(other[key])) for mine, other in pairs])


def ratio(mine: float, other: float) -> float:
    """mine / other; NaN where the other is zero."""
    return mine / other if other > 0 else math.nan


def spread(values: list[float]) -> Json:
    """Mean and standard error of the mean; null where there are too few values."""
    values = [value for value in values if math.isfinite(value)]
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return {"mean": fmean(values) if values else None, "standard_error": error, "runs": len(values)}


def known(value: float) -> float | None:
    """JSON has no NaN."""
    return value if math.isfinite(value) else None


def comparison_record(
    graph: str,
    source: str,
    workers: int,
    seeds: list[int],
    recipes: dict[str, str],
    settings: Json,
    done: list[tuple[str, int, str, Json]],
    notes: list[str],
) -> Json:
    """The content of `compare.json`; ``recipes``: name and summary, ``done``: (recipe, seed, folder, summary)."""
    runs = [run_numbers(*one) for one in done]
    return {
        "graph": graph,
        "source": source,
        "workers": workers,
        "seeds": seeds,
        "recipes": list(recipes),
        "summaries": recipes,
        "settings": settings,
        "notes": notes,
        "metric": done[0][3].get("metric") if done else None,
        "finished": len(runs) == len(recipes) * len(seeds),
        "runs": runs,
        "aggregated": aggregate(runs, list(recipes)),
    }


def write_record(record: Json, folder: Path) -> Path:
    """Write `compare.json`, never half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "compare.json"
    passing = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    passing.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    passing.replace(target)
    return target
