"""Tables that compare runs or recipes: on a page with the best of every column in bold, on the console as text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from halowire.events import best_of
from halowire.report.comparison_record import REFERENCES, error_of, mean_of, metric_of
from halowire.report.markup import Html, join, table, tag
from halowire.report.run_files import Json
from halowire.report.units import NOTHING, bytes_text, is_share, metric_words, seconds_text


@dataclass(frozen=True)
class Column:
    """A column: its head, and how its cell is found from the numbers of a recipe or run.

    ``words`` gives the text of the cell, ``value`` the number behind it, and ``best`` picks the best of these numbers:
    ``min``, ``max``, or None where neither is better.
    """

    head: str
    words: Callable[[Json], str]
    value: Callable[[Json], float]
    best: Callable[[list[float]], float] | None = None


@dataclass(frozen=True)
class Compared:
    """A row: the name of a recipe or run, its colour on the page, and its numbers."""

    name: str
    slot: int
    numbers: Json


def best_table(head: str, rows: list[Compared], columns: list[Column], caption: str) -> Html:
    """A table with a row for every recipe or run; the best of a column is bold where better has a meaning."""
    tops = [_best_words(column, rows) for column in columns]
    cells = [
        [
            join(tag("i", class_=f"swatch run s{row.slot}"), row.name),
            *(
                (words, "best" if words == top else "")
                for column, top in zip(columns, tops, strict=True)
                for words in [column.words(row.numbers)]
            ),
        ]
        for row in rows
    ]
    return table([head, *(column.head for column in columns)], cells, caption, class_="compare")


def _best_words(column: Column, rows: list[Compared]) -> str | None:
    """The words of the best number; None where no number is better than another or all of them read the same."""
    known = [(value, column.words(row.numbers)) for row in rows if math.isfinite(value := column.value(row.numbers))]
    if column.best is None or len({words for _, words in known}) < 2:
        return None
    best = column.best([value for value, _ in known])
    return next(words for value, words in known if value == best)


def recipe_columns(record: Json) -> list[Column]:
    """The columns of a comparison of recipes; ratios to `exact` and `isolated` only where these were run."""
    if not record["aggregated"]:
        return []
    metric = metric_of(record)
    there = [name for name in REFERENCES if name in record["recipes"]]
    return [
        Column(
            metric_head(metric),
            lambda one: spread_text(one["test"], metric),
            lambda one: mean_of(one["test"]),
            best_of(metric),
        ),
        *(
            _against(name, "test", f"difference to {name}", lambda entry: spread_text(entry, metric, True))
            for name in there
        ),
        _mean_column("time per epoch", "epoch_seconds", seconds_text),
        *(_ratio_column(name, "seconds") for name in there),
        _mean_column("halo bytes per epoch", "halo_bytes_per_epoch", bytes_text),
        _mean_column("halo bytes in training", "halo_bytes", bytes_text),
        # `isolated` sends nothing, so that there is no ratio to its bytes.
        *(_ratio_column(name, "halo_bytes") for name in there if name == "exact"),
    ]


def table_rows(record: Json) -> list[list[str]]:
    """The cells of the table as text: a head of two rows, then a row for every recipe that has a finished run."""
    wanted = recipe_columns(record)
    rows = [[name, *(column.words(one) for column in wanted)] for name, one in record["aggregated"].items()]
    above, below = zip(*(column.head.rsplit(" ", 1) for column in wanted), strict=True)
    return [["", *above], ["recipe", *below], *rows]


def count_line(record: Json) -> str:
    """The line below the table: what its means are taken over, and what time and bytes are."""
    seeds = len(record["seeds"])
    over = f"Means over {seeds} seeds, ± standard error" if seeds > 1 else "One seed"
    return f"{over}. Time: median epoch. Halo bytes: rows and their gradients, sent by all workers in training epochs."


def metric_head(metric: str) -> str:
    """The metric of the test nodes as the head of a column, with its unit."""
    return f"test {metric_words(metric)}" + ("\N{NO-BREAK SPACE}(%)" if is_share(metric) else "")


def spread_text(entry: Any, metric: str, signed: bool = False) -> str:
    """A metric with its standard error: a fraction in per cent (79.41 ± 0.12), any other as it is (0.4123 ± 0.0040)."""
    value, error = mean_of(entry), error_of(entry)
    if math.isnan(value):
        return NOTHING
    factor, places = (100, 2) if is_share(metric) else (1, 4)
    written = f"{factor * value:+.{places}f}" if signed else f"{factor * value:.{places}f}"
    written = written.replace("-", "\N{MINUS SIGN}")
    return written if math.isnan(error) else f"{written} ± {factor * error:.{places}f}"


def ratio_text(value: float) -> str:
    """A ratio as text: 1.05, 0.43, 1/23, 0; a dash where it is not known."""
    if math.isnan(value):
        return NOTHING
    if 0 < value < 0.0995:
        return f"1/{1 / value:.0f}"
    return f"{value:.2f}" if value else "0"


def _mean_column(head: str, key: str, words: Callable[[Any], str]) -> Column:
    """A column of the means of ``key``, where less is better."""
    return Column(head, lambda one: words(mean_of(one[key])), lambda one: mean_of(one[key]), min)


def _ratio_column(reference: str, key: str) -> Column:
    """A column of the ratios to the reference."""
    return _against(reference, key, f"ratio to {reference}", lambda entry: ratio_text(mean_of(entry)))


def _against(reference: str, key: str, head: str, words: Callable[[Any], str]) -> Column:
    """A column that compares recipes with the reference; it is empty in the reference's own row."""
    to = f"to_{reference}"
    return Column(
        head,
        lambda one: words(one[to][key]) if to in one else "",
        lambda one: mean_of(one[to][key]) if to in one else math.nan,
    )
