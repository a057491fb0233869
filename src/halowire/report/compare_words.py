"""The numbers of a comparison as words, and the rows of its table, for the terminal and for the page."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from halowire.report.run import Json
from halowire.report.units import NOTHING, bytes_text, is_share, metric_words, number, seconds_text
from halowire.train.metric_names import best_of


@dataclass(frozen=True)
class Column:
    """A column of the table: its head, the words for a recipe, and the number by which the best one is known."""

    head: str
    words: Callable[[Json], str]
    value: Callable[[Json], float]
    best: Callable[[list[float]], float] | None = None


def mean(entry: Any) -> float:
    """The mean of a number that is kept with its spread; NaN where there is none."""
    return number(entry.get("mean")) if isinstance(entry, dict) else math.nan


def error(entry: Any) -> float:
    """Its standard error; NaN where there is none."""
    return number(entry.get("standard_error")) if isinstance(entry, dict) else math.nan


def points(entry: Any, signed: bool = False, metric: str = "accuracy") -> str:
    """A metric with its standard error, a fraction in per cent: 79.41 ± 0.12; another one as it is: 0.4123 ± 0.0040."""
    value, about = mean(entry), error(entry)
    if math.isnan(value):
        return NOTHING
    factor, places = (100, 2) if is_share(metric) else (1, 4)
    written = f"{factor * value:+.{places}f}" if signed else f"{factor * value:.{places}f}"
    written = written.replace("-", "\N{MINUS SIGN}")
    return written if math.isnan(about) else f"{written} ± {factor * about:.{places}f}"


def metric_head(metric: str) -> str:
    """The metric of the test nodes as the head of a column, with its unit."""
    return f"test {metric_words(metric)}" + ("\N{NO-BREAK SPACE}(%)" if is_share(metric) else "")


def ratio_text(value: float) -> str:
    """1.05, 0.43, 1/23, 0; a dash where nothing is known."""
    if math.isnan(value):
        return NOTHING
    if 0 < value < 0.0995:
        return f"1/{1 / value:.0f}"
    return f"{value:.2f}" if value else "0"


def columns(record: Json) -> list[Column]:
    """The columns for which the comparison has something: without `exact` nothing is compared with it."""
    metric = str(record.get("metric") or "accuracy")
    found = [
        Column(
            metric_head(metric),
            lambda one: points(one["test"], metric=metric),
            lambda one: mean(one["test"]),
            best_of(metric),
        ),
        *(difference(name, metric) for name in ("exact", "isolated") if name in record["recipes"]),
        plain("time per epoch", "epoch_seconds", seconds_text),
        *(quotient(name, "seconds") for name in ("exact", "isolated") if name in record["recipes"]),
        plain("halo bytes per epoch", "halo_bytes_per_epoch", bytes_text),
        plain("halo bytes in training", "halo_bytes", bytes_text),
        *([quotient("exact", "halo_bytes")] if "exact" in record["recipes"] else []),
    ]
    return [] if not record["aggregated"] else found


def plain(head: str, key: str, words: Callable[[Any], str]) -> Column:
    """A mean of which less is better."""
    return Column(head, lambda one: words(mean(one[key])), lambda one: mean(one[key]), min)


def difference(reference: str, metric: str) -> Column:
    """Points of the metric more than the reference."""
    key = f"to_{reference}"
    return Column(
        f"against {reference}",
        lambda one: points(one[key]["test"], True, metric) if key in one else "",
        lambda one: mean(one[key]["test"]) if key in one else math.nan,
    )


def quotient(reference: str, key: str) -> Column:
    """The share of what the reference takes; no bytes of `isolated`, which has none."""
    against = f"to_{reference}"
    return Column(
        f"ratio to {reference}",
        lambda one: ratio_text(mean(one[against][key])) if against in one else "",
        lambda one: mean(one[against][key]) if against in one else math.nan,
    )


def table_rows(record: Json) -> list[list[str]]:
    """The table as words: a head of two rows, then a row for every recipe that has a finished run."""
    wanted = columns(record)
    rows = [[name, *(column.words(one) for column in wanted)] for name, one in record["aggregated"].items()]
    above, below = zip(*(column.head.rsplit(" ", 1) for column in wanted), strict=True)
    return [["", *above], ["recipe", *below], *rows]


def count_line(record: Json) -> str:
    """What the means are taken over."""
    seeds = len(record["seeds"])
    many = f"Means over {seeds} seeds, ± standard error" if seeds > 1 else "One seed"
    return f"{many}. Time: median epoch. Halo bytes: rows and gradients that all workers sent in training epochs."
