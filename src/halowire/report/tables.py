"""HTML tables, each in a box of its own that scrolls, so that the page never does."""

from __future__ import annotations

import math
from collections.abc import Sequence

from halowire.report.line_chart import Chart
from halowire.report.markup import Html, tag
from halowire.report.ticks import WORDS

MOST_ROWS = 400


def table(head: Sequence[object], rows: Sequence[Sequence[object]], caption: str, class_: str | None = None) -> Html:
    """A table whose first column names the rows; a cell given as (words, class) carries that class."""
    header = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head))) if head else None
    body = tag("tbody", *(tag("tr", tag("th", row[0], scope="row"), *map(cell, row[1:])) for row in rows))
    return tag(
        "div",
        tag("table", header, body, class_=class_, aria_label=caption),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


def cell(value: object) -> Html:
    """A table cell."""
    return tag("td", value[0], class_=value[1] or None) if isinstance(value, tuple) else tag("td", value)


def data_table(chart: Chart) -> Html:
    """The numbers of a line chart, folded away; long ones thinned, which the summary line says."""
    epochs = sorted({epoch for curve in chart.curves for epoch, _ in curve.points})
    every = math.ceil(len(epochs) / MOST_ROWS) or 1
    values = [dict(curve.points) for curve in chart.curves]
    rows = [[epoch, *(WORDS[chart.kind](v.get(epoch)) for v in values)] for epoch in epochs[::every]]
    return fold(
        "Data" if every == 1 else f"Data (one epoch in {every})",
        table(["epoch", *(curve.label for curve in chart.curves)], rows, f"{chart.title}: data"),
    )


def fold(summary: str, *children: object) -> Html:
    """Something folded away under a line that opens it."""
    return tag("details", tag("summary", summary), *children)
