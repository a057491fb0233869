"""`compare.json` keeps a comparison of recipes: the numbers of every run and their means; a table shows it.

Every number of a recipe has a mean and a standard error over the seeds. Differences and ratios are taken seed by seed,
between runs on the same shards, and then averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from halowire.events import best_of, plain
from halowire.files import write_json
from halowire.report.markup import Column
from halowire.report.units import (
    NOTHING,
    Json,
    bytes_text,
    error_of,
    finite,
    is_share,
    mean_of,
    metric_words,
    number,
    seconds_text,
    share,
)

TAKEN = (
    "status", "epochs", "best_epoch", "test", "val", "train_loss", "epoch_seconds", "wait_seconds", "wire_bytes_total",
    "setup_wire_bytes", "eval_wire_bytes", "gradient_bytes_per_epoch", "peak_memory_bytes",
)  # fmt: skip
"""The keys that a run's entry takes from its `summary.json`."""
AVERAGED = (
    "test", "val", "train_loss", "epoch_seconds", "train_seconds", "wait_seconds", "halo_bytes_per_epoch", "halo_bytes",
    "gradient_bytes_per_epoch", "setup_wire_bytes", "epochs",
)  # fmt: skip
"""The numbers of a run's entry that are averaged over the seeds of a recipe."""
REFERENCES = ("exact", "isolated")
"""Recipes with which the others are compared, if they are part of the comparison."""


def write_record(folder: Path, about: Json, done: list[tuple[str, int, str, Json]]) -> Json:
    """Write `compare.json`, and return its content.

    ``about`` says what is compared: graph, source, workers, seeds, recipes, a sentence about each of them (summaries),
    settings that hold for all of them, and notes. ``done`` are the finished runs: (recipe, seed, folder, summary).
    """
    runs = [run_numbers(*one) for one in done]
    record: Json = plain(about) | {
        "metric": done[0][3].get("metric") if done else None,
        "finished": len(runs) == len(about["recipes"]) * len(about["seeds"]),
        "runs": runs,
        "aggregated": aggregate(runs, about["recipes"]),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "compare.json", record)
    return record


def run_numbers(recipe: str, seed: int, folder: str, summary: Json) -> Json:
    """The entry of one run; ``halo_bytes`` are the bytes of halo rows and their gradients in all training epochs."""
    epochs = number(summary.get("epochs"))
    sent = number(summary.get("wire_bytes_per_epoch"))
    found: Json = plain({
        "recipe": recipe,
        "seed": seed,
        "folder": folder,
        **{key: summary.get(key) for key in TAKEN},
        "train_seconds": number(summary.get("epoch_seconds")) * epochs,
        "halo_bytes_per_epoch": sent,
        "halo_bytes": sent * epochs,
    })  # fmt: skip
    return found


def aggregate(runs: list[Json], recipes: list[str]) -> dict[str, Json]:
    """For every recipe with a finished run {key: {mean, standard_error, runs}}, also against `exact` and `isolated`."""
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
                    "seconds": _paired(pairs, "epoch_seconds", share),
                    "halo_bytes": _paired(pairs, "halo_bytes", share),
                }
    return found


def mean_and_error(values: list[float]) -> Json:
    """Mean and standard error of the mean; None where there are too few values."""
    values = finite(values)
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return {"mean": fmean(values) if values else None, "standard_error": error, "runs": len(values)}


def metric_of(record: Json) -> str:
    """The metric that the recipes are compared by, as in `summary.json`."""
    return str(record.get("metric") or "accuracy")


def _paired(pairs: list[tuple[Json, Json]], key: str, combine: Callable[[float, float], float]) -> Json:
    """The mean over the seeds of a difference or ratio."""
    return mean_and_error([combine(number(mine[key]), number(other[key])) for mine, other in pairs])


def recipe_columns(record: Json) -> list[Column]:
    """The columns of a comparison of recipes; ratios to `exact` and `isolated` only if these recipes were run."""
    if not record["aggregated"]:
        return []
    metric = metric_of(record)
    there = [name for name in REFERENCES if name in record["recipes"]]
    points = partial(spread_text, metric=metric)
    signed = partial(spread_text, metric=metric, signed=True)
    columns = [
        Column(metric_head(metric), ("test",), points, best_of(metric)),
        *(Column(f"difference to {name}", (f"to_{name}", "test"), signed) for name in there),
        Column("time per epoch", ("epoch_seconds", "mean"), seconds_text, min),
        *(Column(f"ratio to {name}", (f"to_{name}", "seconds", "mean"), ratio_text) for name in there),
        Column("halo bytes per epoch", ("halo_bytes_per_epoch", "mean"), bytes_text, min),
        Column("halo bytes in training", ("halo_bytes", "mean"), bytes_text, min),
    ]
    if "exact" in there:
        # `isolated` sends no bytes, so there is no ratio to them.
        columns.append(Column("ratio to exact", ("to_exact", "halo_bytes", "mean"), ratio_text))
    return columns


def table_rows(record: Json) -> list[list[str]]:
    """The cells of the table as text: a head of two rows, then a row for every recipe that has a finished run."""
    wanted = recipe_columns(record)
    rows = [[name, *(column.cell(one) for column in wanted)] for name, one in record["aggregated"].items()]
    above, below = zip(*(column.head.rsplit(" ", 1) for column in wanted), strict=True)
    return [["", *above], ["recipe", *below], *rows]


def count_line(record: Json) -> str:
    """The line below the table: over which seeds the means are taken, and what time and bytes stand for."""
    seeds = len(record["seeds"])
    over = f"Means over {seeds} seeds, ± standard error" if seeds > 1 else "One seed"
    return f"{over}. Time: median epoch. Halo bytes: rows and their gradients, sent by all workers in training epochs."


def metric_head(metric: str) -> str:
    """The metric of the test nodes as the head of a column, with its unit."""
    return f"test {metric_words(metric)}" + ("\N{NO-BREAK SPACE}(%)" if is_share(metric) else "")


def spread_text(entry: Any, metric: str, signed: bool = False) -> str:
    """A metric with its standard error: a fraction in per cent (79.41 ± 0.12), others unchanged (0.4123 ± 0.0040)."""
    value, error = mean_of(entry), error_of(entry)
    if math.isnan(value):
        return NOTHING
    factor, places = (100, 2) if is_share(metric) else (1, 4)
    written = f"{factor * value:{'+' if signed else ''}.{places}f}".replace("-", "\N{MINUS SIGN}")
    return written if math.isnan(error) else f"{written} ± {factor * error:.{places}f}"


def ratio_text(value: Any) -> str:
    """A ratio as text: 1.05, 0.43, 1/23, 0; a dash where it is not known."""
    ratio = number(value)
    if math.isnan(ratio):
        return NOTHING
    if 0 < ratio < 0.0995:
        return f"1/{1 / ratio:.0f}"
    return f"{ratio:.2f}" if ratio else "0"
