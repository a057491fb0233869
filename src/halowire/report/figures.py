"""The figures of the report: which curves and bars they show, and the sentence that says what to see in them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median

from halowire.report import series
from halowire.report.bars import Bar, bar_chart, key
from halowire.report.facts import facts
from halowire.report.line_chart import Chart, Curve, line_chart
from halowire.report.markup import Html, join, tag
from halowire.report.run import Run
from halowire.report.tables import data_table, fold, table
from halowire.report.ticks import metric_kind
from halowire.report.units import (
    bytes_text,
    metric_text,
    metric_words,
    number,
    number_text,
    percent_text,
    seconds_text,
    share,
    title,
)

MOST_BARS = 12
SLOTS = 8
"""Colours of the style sheet; further curves begin again with the first one."""
MOST_CURVES = 6
"""More layers than this are drawn as their mean."""
ERRORS = {
    "forward": "halo rows",
    "backward": "gradients of halo rows",
    "stage forward": "rows between stages",
    "stage backward": "gradients between stages",
}
"""What travels in each direction, in the order of the figures."""


@dataclass(frozen=True)
class Named:
    """A run with its name, its colour on this page, and the name of the runs that share the colour."""

    label: str
    slot: int
    run: Run
    group: str


def figures(runs: list[Named]) -> Html:
    """All figures for which there is something to show; empty when the events hold nothing."""
    drawn = [loss(runs), quality(runs), time(runs), wire(runs), *map(partial(error, runs), ERRORS), rate(runs)]
    drawn += [phases(runs), exchanges(runs)]
    return tag("div", *(one for one in drawn if one is not None), class_="figures")


def figure(title: str, says: str, drawing: object, data: object, wide: bool = False) -> Html:
    """A figure: its title, what to see in it, the drawing and the numbers behind it."""
    caption = tag("figcaption", tag("h3", title), tag("p", says))
    return tag("figure", caption, drawing, data, class_="wide" if wide else None)


def lines(runs: list[Named], chart: Chart, says: str) -> Html | None:
    """A figure of curves; None when no curve has a value."""
    if not any(series.known(curve.points) for curve in chart.curves):
        return None
    # Every figure has the same epochs below it, so that the eye can go down the page.
    epochs = [epoch for one in runs for epoch in (*one.run.epochs(), *one.run.first.evals)]
    chart = replace(chart, span=(min(epochs), max(epochs)))
    return figure(chart.title, says, line_chart(chart, says), data_table(chart))


def curves_of(runs: list[Named], points: Callable[[Run], series.Points], alone: str = "") -> list[Curve]:
    """A curve for every run, named after it; ``alone`` is the name where there is only one."""
    if len(runs) == 1:
        return [Curve(alone, points(runs[0].run), runs[0].slot)]
    return [Curve(one.label, points(one.run), one.slot, group=one.group) for one in runs]


def loss(runs: list[Named]) -> Html | None:
    """The training loss."""
    curves = curves_of(runs, series.losses, "loss")
    marks = []
    says = "Mean over the training nodes of all workers."
    if len(runs) == 1:
        points = curves[0].points
        values = series.known(points)
        if len(values) > 1:
            fell = f"From {number_text(values[0])} to {number_text(values[-1])}"
            says = f"{fell}; mean over the training nodes of all workers."
        lost = [epoch for epoch, value in points if math.isnan(value)]
        marks = [(lost[0], "not a number")] if lost else []
    return lines(
        runs, Chart("Training loss", curves, "number", unit="loss", zero=lowest_is_near_zero(curves), marks=marks), says
    )


def lowest_is_near_zero(curves: list[Curve]) -> bool:
    """Whether an axis from zero costs little room."""
    values = [value for curve in curves for value in series.known(curve.points)]
    return bool(values) and 0 <= min(values) < 0.5 * max(values)


def quality(runs: list[Named]) -> Html | None:
    """The metric at every evaluation: all splits of one run, validation of several."""
    name = str(facts(runs[0].run).get("metric"))
    metric, kind = metric_words(name), metric_kind(name)
    if len(runs) > 1:
        curves = curves_of(runs, lambda run: series.metrics(run, "val"))
        return lines(
            runs,
            Chart(f"Validation {metric}", curves, kind),
            "Exact evaluation on the whole graph, every node counted.",
        )
    run = runs[0].run
    slots = {"train": 5, "val": 0, "test": 1}
    curves = [Curve(part, series.metrics(run, part), slot) for part, slot in slots.items()]
    known = facts(run)
    best = known.get("best_epoch")
    marks: list[tuple[int, str]] = []
    says = "Exact evaluation on the whole graph."
    if isinstance(best, int) and any(epoch == best for epoch, _ in curves[1].points):
        val, test = metric_text(name, known["val"]), metric_text(name, known["test"])
        says = f"Best validation {val} at epoch {best}, where test is {test}."
        marks = [(best, f"best: epoch {best}")] if len(curves[1].points) > 1 else []
    return lines(runs, Chart(title(metric), curves, kind, marks=marks), says)


def time(runs: list[Named]) -> Html | None:
    """Seconds per training epoch, and how much of it is waiting."""
    if len(runs) > 1:
        curves = curves_of(runs, series.seconds)
        says = "The slowest worker of every training epoch; evaluation excluded."
    else:
        run = runs[0].run
        points, waiting = series.seconds(run), series.waits(run)
        curves = [Curve("epoch", points, 0), Curve("waiting", waiting, 1, area=True)]
        values = series.known(points)
        middle = f"Median {seconds_text(median(values))}" if values else "Time"
        says = f"{middle} on the slowest worker; below it the part spent waiting for the wire, mean of the workers."
    return lines(runs, Chart("Time per epoch", curves, "seconds", zero=True, unit="per epoch", robust=True), says)


def wire(runs: list[Named]) -> Html | None:
    """Bytes per epoch that all workers sent."""
    if len(runs) > 1:
        curves = curves_of(runs, series.wire_bytes)
        staged = any(any(series.known(series.stage_bytes(one.run))) for one in runs)
        rows = "Halo rows and rows between stages" if staged else "Halo rows"
        says = f"{rows} and their gradients, sent by all workers; weight gradients apart."
    else:
        run = runs[0].run
        curves = [Curve("halos", series.halo_bytes(run), 0), Curve("weights", series.gradient_bytes(run), 5)]
        says = "Sent by all workers: halo rows with their gradients, and apart from them the gradients of the weights."
        if any(series.known(series.stage_bytes(run))):
            curves.insert(1, Curve("stages", series.stage_bytes(run), 1))
            says = (
                "Sent by all workers: halo rows and rows between stages, each with their gradients, and apart from "
                "them the gradients of the weights."
            )
        if not any(value > 0 for curve in curves for value in series.known(curve.points)):
            says = "Nothing crossed the wire: one worker has no halos."
    return lines(runs, Chart("Bytes on the wire", curves, "bytes", zero=True, unit="per epoch"), says)


def error(runs: list[Named], direction: str) -> Html | None:
    """What the code changed of the rows or gradients that travelled; None where all went as they were."""
    what = ERRORS[direction]
    if len(runs) > 1:
        curves = curves_of(runs, partial(series.mean_code_errors, direction=direction))
        scope = "mean of the layers and the workers"
    else:
        found = series.code_errors(runs[0].run, direction)
        curves = [Curve(f"layer {layer}", points, slot % SLOTS) for slot, (layer, points) in enumerate(found.items())]
        scope = "mean of the workers"
        if len(found) > MOST_CURVES:
            curves = [Curve("mean", series.mean_code_errors(runs[0].run, direction), 0)]
            scope = f"mean of {len(found)} layers and the workers"
    says = (
        f"Squared error of the {what} over their squared norm, on a sample; {scope}. "
        "Late ones are compared with those of the epoch that uses them. The axis is logarithmic."
    )
    chart = Chart(f"Error of the code, {direction}", curves, "number", unit="relative squared error", log=True)
    return lines(runs, chart, says)


def rate(runs: list[Named]) -> Html | None:
    """The learning rate, where it changes."""
    curves = curves_of(runs, series.learning_rates, "rate")
    if all(len(set(series.known(curve.points))) <= 1 for curve in curves):
        return None
    return lines(
        runs,
        Chart("Learning rate", curves, "number", unit="learning rate", zero=True),
        "As scheduled, before the epoch's step.",
    )


def phases(runs: list[Named]) -> Html | None:
    """Where the time of an epoch went: a bar for every worker, or for every run the mean of its workers."""
    rows = [(one, rank.rank, spent) for one in runs for rank in one.run.ranks if (spent := series.mean_phases(rank))]
    if not rows:
        return None
    names = [name for name in (*series.PHASES, "other") if any(name in spent for *_, spent in rows)]
    names += sorted({name for *_, spent in rows for name in spent} - set(names))
    if len(runs) == 1:
        slowest = sorted(rows, key=lambda row: -sum(row[2].values()))[:MOST_BARS]
        shown = [(f"worker {rank}", spent) for _, rank, spent in sorted(slowest, key=lambda row: row[1])]
        what = (
            "A bar is a worker"
            if len(rows) == len(shown)
            else f"A bar is a worker, the {MOST_BARS} slowest of {len(rows)}"
        )
    else:
        shown = [(one.label, mean([spent for row, _, spent in rows if row is one])) for one in runs]
        shown = [(name, spent) for name, spent in shown if spent]
        what = "A bar is a run, the mean of its workers"
    bars = [
        Bar(name, spent_words(spent), [segment(kind, spent) for kind in names if kind in spent])
        for name, spent in shown
    ]
    total = sum(sum(spent.values()) for *_, spent in rows)
    entries = [
        (css(name), name, percent_text(sum(spent.get(name, 0.0) for *_, spent in rows) / total)) for name in names
    ]
    warm = ", without the first one, which warms up" if any(len(one.run.epochs()) > 2 for one in runs) else ""
    staged = any(_stages(one) > 1 for one in runs)
    waiting = (
        "halo rows and for chunks from other stages, reduce for weight gradients and for the last stage to finish"
        if staged
        else "halo rows, reduce for weight gradients"
    )
    says = f"{what}; mean of the epochs{warm}. Waiting is what compute did not hide of the wire: wait for {waiting}."
    head = ["worker" if len(runs) == 1 else "run, worker", *names, "epoch"]
    data = [
        [
            str(rank) if len(runs) == 1 else f"{one.label}, {rank}",
            *(seconds_text(spent.get(name, 0.0)) for name in names),
            seconds_text(sum(spent.values())),
        ]
        for one, rank, spent in rows
    ]
    drawing = tag("div", key(entries), bar_chart("Where the time went", says, bars))
    return figure(
        "Where the time went", says, drawing, fold("Data", table(head, data, "Where the time went: data")), wide=True
    )


def mean(spent: list[dict[str, float]]) -> dict[str, float]:
    """The mean of the workers' phases."""
    return {name: fmean(one.get(name, 0.0) for one in spent) for name in {name for one in spent for name in one}}


def spent_words(spent: dict[str, float]) -> str:
    """An epoch's time, and the share of waiting in it."""
    total = sum(spent.values())
    waiting = sum(spent.get(name, 0.0) for name in series.WAITING)
    return f"{seconds_text(total)}, {percent_text(share(waiting, total))} waiting"


def segment(name: str, spent: dict[str, float]) -> tuple[str, str, float, str]:
    """A phase as a bar's segment."""
    return css(name), name, spent[name], seconds_text(spent[name])


def css(name: str) -> str:
    """The phase's class; phases without a colour of their own share one."""
    return name if name in series.PHASES else "other"


def _stages(one: Named) -> float:
    """How many stages a run has, as far as its summary tells."""
    mesh = one.run.summary.get("mesh")
    return number(mesh.get("stages")) if isinstance(mesh, dict) else 1


def exchanges(runs: list[Named]) -> Html | None:
    """What every exchange of an epoch sends and how long it is waited for; of a single run."""
    found = series.exchange_totals(runs[0].run) if len(runs) == 1 else []
    found = [row for row in found if row[2] > 0]
    if not found:
        return None
    shown = [(f"layer {layer}, {way}", way, sent, wait) for layer, way, sent, wait in found]
    if len(found) > MOST_BARS:
        ways = {way: [row for row in found if row[1] == way] for _, way, *_ in found}
        shown = [
            (f"{len(rows)} {'layer' if len(rows) == 1 else 'layers'}, {way}", way, sum(row[2] for row in rows),
             sum(row[3] for row in rows))
            for way, rows in ways.items()
        ]  # fmt: skip
    bars = [
        Bar(
            name,
            join(bytes_text(sent), tag("tspan", f", waited {seconds_text(wait)}", class_="fine")),
            [(css(way.removeprefix("stage ")), way, sent, bytes_text(sent))],
        )
        for name, way, sent, wait in shown
    ]
    data = [[f"layer {layer}, {way}", bytes_text(sent), seconds_text(wait)] for layer, way, sent, wait in found]
    once = number(facts(runs[0].run).get("setup_wire_bytes"))
    what = "Chunks, sizes and, between parts, raw features" if _stages(runs[0]) > 1 else "Raw features"
    setup = f" {what} crossed once, before the first epoch: {bytes_text(once)}." if once > 0 else ""
    says = f"Bytes per epoch of all workers, and the mean time a worker waited for them.{setup}"
    return figure(
        "What was exchanged",
        says,
        tag("div", bar_chart("What was exchanged", says, bars, thick=8), class_="narrowing"),
        fold("Data", table(["exchange", "bytes per epoch", "waited"], data, "What was exchanged: data")),
        wide=True,
    )
