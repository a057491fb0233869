"""The figures of a comparison: accuracy against bytes and time, bytes and loss over the epochs, where the time went."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from halowire.report import series
from halowire.report.bars import Bar, bar_chart, key
from halowire.report.compare_words import error, mean, metric_head, points, ratio_text
from halowire.report.figures import figure, lowest_is_near_zero
from halowire.report.line_chart import Chart, Curve, line_chart
from halowire.report.markup import Html, tag
from halowire.report.run import Json, Run
from halowire.report.scatter import Point, Scatter, scatter_plot
from halowire.report.tables import data_table, fold, table
from halowire.report.ticks import metric_kind
from halowire.report.units import bytes_text, metric_words, number, percent_text, seconds_text, share
from halowire.train.metric_names import LOWER_IS_BETTER


@dataclass(frozen=True)
class Compared:
    """A recipe on the page: its colour, its numbers over the seeds, the entries and the folders of its runs."""

    name: str
    slot: int
    numbers: Json
    entries: list[Json]
    runs: list[Run]


def compare_figures(record: Json, recipes: list[Compared]) -> Html:
    """All figures for which there is something to show."""
    drawn = [against_bytes(record, recipes), against_time(record, recipes), wire(recipes), loss(recipes), time(recipes)]
    return tag("div", *(one for one in drawn if one is not None), class_="figures")


def metric_name(record: Json) -> str:
    """The metric, as in `summary.json`."""
    return str(record.get("metric") or "accuracy")


def metric_of(record: Json) -> str:
    """The metric's name inside a sentence."""
    return metric_words(metric_name(record))


def corner(record: Json) -> str:
    """Where the good recipes are."""
    return "Lower left is better." if metric_name(record) in LOWER_IS_BETTER else "Upper left is better."


def scatter(record: Json, recipes: list[Compared], chart: Scatter, at: str, says: str) -> Html | None:
    """A figure with a point for every recipe; ``at`` is the number on the horizontal axis."""
    if not chart.points:
        return None
    words = bytes_text if chart.across == "bytes" else seconds_text
    name = metric_name(record)
    rows = [[one.name, points(one.numbers["test"], metric=name), words(mean(one.numbers[at]))] for one in recipes]
    head = ["recipe", metric_head(name), chart.words]
    return figure(chart.title, says, scatter_plot(chart, says), fold("Data", table(head, rows, f"{chart.title}: data")))


def points_of(recipes: list[Compared], at: str) -> list[Point]:
    """The recipes' means over the seeds, at the mean of the number ``at``."""
    found = []
    for one in recipes:
        single = [(number(run[at]), number(run["test"])) for run in one.entries]
        x, y = mean(one.numbers[at]), mean(one.numbers["test"])
        if math.isfinite(x) and math.isfinite(y):
            found.append(Point(one.name, x, y, error(one.numbers["test"]), one.slot, single))
    return found


def against_bytes(record: Json, recipes: list[Compared]) -> Html | None:
    """What the accuracy costs on the wire."""
    title = f"Test {metric_of(record)} against bytes"
    chart = Scatter(title, points_of(recipes, "halo_bytes"), "bytes", "halo bytes of the whole training", "", True,
                    metric_kind(metric_name(record)))  # fmt: skip
    return scatter(record, recipes, chart, "halo_bytes", f"{corner(record)} The axis is logarithmic.{spread(record)}")


def against_time(record: Json, recipes: list[Compared]) -> Html | None:
    """What the accuracy costs in time."""
    title = f"Test {metric_of(record)} against time"
    chart = Scatter(title, points_of(recipes, "train_seconds"), "seconds", "time of all training epochs", "",
                    upward=metric_kind(metric_name(record)))  # fmt: skip
    return scatter(record, recipes, chart, "train_seconds", f"{corner(record)} Median epoch times epochs.")


def spread(record: Json) -> str:
    """What the marks of a point mean."""
    return " Large dots: means, with standard error; small: single seeds." if len(record["seeds"]) > 1 else ""


def over_epochs(recipes: list[Compared], points: Callable[[Run], series.Points]) -> list[Curve]:
    """A curve for every recipe: at every epoch the mean of its seeds."""
    curves = []
    for one in recipes:
        values: dict[int, list[float]] = {}
        for run in one.runs:
            for epoch, value in points(run):
                values.setdefault(epoch, []).append(value)
        found = [
            (epoch, fmean(known) if (known := series.finite(all_)) else math.nan) for epoch, all_ in values.items()
        ]
        curves.append(Curve(one.name, sorted(found), one.slot))
    return curves


def lines(chart: Chart, says: str) -> Html | None:
    """A figure of curves; None when no curve has a value."""
    if not any(series.known(curve.points) for curve in chart.curves):
        return None
    return figure(chart.title, says, line_chart(chart, says), data_table(chart))


def wire(recipes: list[Compared]) -> Html | None:
    """Bytes per epoch, on a logarithmic axis: recipes differ by orders of magnitude."""
    curves = over_epochs(recipes, series.wire_bytes)
    says = "Halo rows and their gradients, sent by all workers; weight gradients apart. The axis is logarithmic."
    if not any(value > 0 for curve in curves for value in series.known(curve.points)):
        says = "Nothing crossed the wire: one worker has no halos."
    return lines(Chart("Bytes per epoch", curves, "bytes", unit="per epoch", log=True), says)


def loss(recipes: list[Compared]) -> Html | None:
    """The training loss over the epochs."""
    curves = over_epochs(recipes, series.losses)
    chart = Chart("Training loss", curves, "number", unit="loss", zero=lowest_is_near_zero(curves))
    return lines(chart, "Mean over the training nodes of all workers, and over the seeds.")


def time(recipes: list[Compared]) -> Html | None:
    """The median epoch of every recipe: computing, and waiting for the wire."""
    bars, rows = [], []
    for one in recipes:
        whole, waiting = mean(one.numbers["epoch_seconds"]), mean(one.numbers["wait_seconds"])
        if not whole > 0:
            continue
        waiting = min(waiting, whole) if waiting > 0 else 0.0
        part = percent_text(share(waiting, whole))
        against = ratio_text(mean(one.numbers.get("to_exact", {}).get("seconds")))
        segments = [
            ("forward", "computing", whole - waiting, seconds_text(whole - waiting)),
            ("wait", "waiting", waiting, seconds_text(waiting)),
        ]
        bars.append(Bar(one.name, f"{seconds_text(whole)}, {part} waiting", segments))
        rows.append([one.name, seconds_text(whole), seconds_text(waiting), part, against])
    if not bars:
        return None
    says = "The median training epoch, evaluation apart; waiting is what computing did not hide of the wire."
    names = tag(
        "div", key([("forward", "computing", ""), ("wait", "waiting for the wire", "")]),
        bar_chart("Time per epoch", says, bars, thick=8),
    )  # fmt: skip
    head = ["recipe", "epoch", "waiting", "share", "ratio to exact"]
    return figure("Time per epoch", says, names, fold("Data", table(head, rows, "Time per epoch: data")), wide=True)
