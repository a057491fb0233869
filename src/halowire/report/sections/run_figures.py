"""The figures of one or more runs: curves over the epochs, and where the time and the bytes of an epoch went."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from statistics import fmean, median

from halowire.report import series
from halowire.report.charts import Bar, BarPart, Curve, LineChart, bar_chart, legend, line_figure, metric_kind
from halowire.report.facts import COLOURS, ShownRun
from halowire.report.markup import Html, figure, join, tag
from halowire.report.run_files import RunFiles
from halowire.report.units import (
    Points,
    as_object,
    bytes_text,
    capitalised,
    metric_text,
    metric_words,
    number,
    number_text,
    percent_text,
    plural,
    seconds_text,
    share,
)

MOST_BARS = 12
"""The most bars of a figure; its data table has all bars."""
MOST_CURVES = 6
"""A run with more layers than this gets one curve, the mean of the layers."""
SPLITS = {"train": 5, "val": 0, "test": 1}
"""The splits of the nodes, each with its colour."""
TRAVELS = {
    "forward": "halo rows",
    "backward": "gradients of halo rows",
    "stage forward": "rows between stages",
    "stage backward": "gradients between stages",
}
"""What travels in each direction, in the order of the figures."""


def run_figures(runs: list[ShownRun]) -> list[Html]:
    """All figures for which there is data; the figure of the exchanges is shown for a single run only."""
    drawn = [_loss(runs), _quality(runs), _time(runs), _bytes(runs)]
    drawn += [*(_code_error(runs, direction) for direction in TRAVELS), _learning_rate(runs)]
    drawn += [_phases(runs), _exchanges(runs[0]) if len(runs) == 1 else None]
    return [one for one in drawn if one is not None]


def lowest_is_near_zero(curves: list[Curve]) -> bool:
    """Whether the axis can start at zero without flattening the curves."""
    values = [value for curve in curves for value in curve.values]
    return bool(values) and 0 <= min(values) < 0.5 * max(values)


def _figure(runs: list[ShownRun], chart: LineChart, says: str) -> Html | None:
    """The chart as a figure; every figure has the same epochs below it, so that the eye can go down the page."""
    epochs = [epoch for one in runs for epoch in (*one.files.epochs(), *one.files.first.evals)]
    return line_figure(replace(chart, span=(min(epochs), max(epochs)) if epochs else None), says)


def _curves(runs: list[ShownRun], points: Callable[[RunFiles], Points], alone: str = "") -> list[Curve]:
    """A curve for every run, named after the run; ``alone`` is the name if there is only one run."""
    if len(runs) == 1:
        return [Curve(alone, points(runs[0].files), runs[0].slot)]
    return [Curve(one.label, points(one.files), one.slot, group=one.group) for one in runs]


def _loss(runs: list[ShownRun]) -> Html | None:
    """The training loss, with marks at epochs where it was not a number."""
    curves = _curves(runs, series.losses, "loss")
    marks = []
    says = "Mean over the training nodes of all workers."
    if len(runs) == 1:
        values = curves[0].values
        if len(values) > 1:
            fell = f"From {number_text(values[0])} to {number_text(values[-1])}"
            says = f"{fell}; mean over the training nodes of all workers."
        lost = [epoch for epoch, value in curves[0].points if math.isnan(value)]
        marks = [(lost[0], "not a number")] if lost else []
    zero = lowest_is_near_zero(curves)
    return _figure(runs, LineChart("Training loss", curves, "number", unit="loss", zero=zero, marks=marks), says)


def _quality(runs: list[ShownRun]) -> Html | None:
    """The metric at every evaluation: all splits of a single run, or validation of several runs."""
    one = runs[0]
    metric, kind = metric_words(one.metric), metric_kind(one.metric)
    if len(runs) > 1:
        curves = _curves(runs, partial(series.metrics, split="val"))
        says = "Evaluation is exact, on the whole graph, whatever training sends."
        return _figure(runs, LineChart(f"Validation {metric}", curves, kind), says)
    curves = [Curve(split, series.metrics(one.files, split), slot) for split, slot in SPLITS.items()]
    evaluated = [epoch for epoch, _ in curves[1].points]
    best = one.facts.get("best_epoch")
    marks: list[tuple[int, str]] = []
    says = "Evaluation is exact, on the whole graph, whatever training sends."
    if isinstance(best, int) and best in evaluated:
        val, test = (metric_text(one.metric, one.facts[split]) for split in ("val", "test"))
        says = f"Best validation {val} at epoch {best}, where test is {test}."
        marks = [(best, f"best: epoch {best}")] if len(evaluated) > 1 else []
    return _figure(runs, LineChart(capitalised(metric), curves, kind, marks=marks), says)


def _time(runs: list[ShownRun]) -> Html | None:
    """Seconds per training epoch, and how many of them are waiting."""
    if len(runs) > 1:
        curves = _curves(runs, series.seconds)
        says = "Training epochs on their slowest worker, without evaluation."
    else:
        epochs = Curve("epoch", series.seconds(runs[0].files), 0)
        curves = [epochs, Curve("waiting", series.waits(runs[0].files), 1, area=True)]
        middle = f"Median {seconds_text(median(epochs.values))}" if epochs.values else "Time"
        says = f"{middle} on the slowest worker; below it the part spent waiting for the wire, mean of the workers."
    return _figure(runs, LineChart("Time per epoch", curves, "seconds", zero=True, unit="per epoch", robust=True), says)


def _bytes(runs: list[ShownRun]) -> Html | None:
    """Bytes per epoch that all workers sent."""
    staged = any(any(series.known(series.stage_bytes(one.files))) for one in runs)
    if len(runs) > 1:
        curves = _curves(runs, series.wire_bytes)
        rows = "Halo rows and rows between stages" if staged else "Halo rows"
        says = f"{rows} and their gradients, sent by all workers; weight gradients are not counted."
    else:
        run = runs[0].files
        curves = [Curve("halos", series.halo_bytes(run), 0), Curve("weights", series.gradient_bytes(run), 5)]
        says = "Sent by all workers: halo rows and their gradients (halos), gradients of the weights (weights)."
        if staged:
            curves.insert(1, Curve("stages", series.stage_bytes(run), 1))
            says = (
                "Sent by all workers: halo rows (halos) and rows between stages (stages), each with their gradients; "
                "gradients of the weights (weights)."
            )
        if not any(value > 0 for curve in curves for value in curve.values):
            says = "Nothing crossed the wire: one worker has no halos."
    return _figure(runs, LineChart("Bytes on the wire", curves, "bytes", zero=True, unit="per epoch"), says)


def _code_error(runs: list[ShownRun], direction: str) -> Html | None:
    """How much coding changed the rows or gradients that travelled; None if they travelled unchanged."""
    mean = partial(series.mean_code_errors, direction=direction)
    if len(runs) > 1:
        curves = _curves(runs, mean)
        scope = "mean of the layers and the workers"
    else:
        found = series.code_errors(runs[0].files, direction)
        curves = [Curve(f"layer {layer}", points, slot % COLOURS) for slot, (layer, points) in enumerate(found.items())]
        scope = "mean of the workers"
        if len(found) > MOST_CURVES:
            curves = [Curve("mean", mean(runs[0].files), 0)]
            scope = f"mean of {len(found)} layers and the workers"
    says = (
        f"What coding changed: squared error of the {TRAVELS[direction]} over their squared norm, on a sample; "
        f"{scope}. Delayed ones are compared with those of the epoch that uses them. The axis is logarithmic."
    )
    chart = LineChart(f"Coding error, {direction}", curves, "number", unit="relative squared error", log=True)
    return _figure(runs, chart, says)


def _learning_rate(runs: list[ShownRun]) -> Html | None:
    """The learning rate, if it changes during the run."""
    curves = _curves(runs, series.learning_rates, "rate")
    if all(len(set(curve.values)) <= 1 for curve in curves):
        return None
    chart = LineChart("Learning rate", curves, "number", unit="learning rate", zero=True)
    return _figure(runs, chart, "The rate of every epoch, as scheduled.")


def _phases(runs: list[ShownRun]) -> Html | None:
    """Where the time of an epoch went: a bar for every worker, or for every run the mean of its workers."""
    title = "Where the time went"
    rows = [(one, at.rank, spent) for one in runs for at in one.files.present if (spent := series.mean_phases(at))]
    if not rows:
        return None
    names = _names(spent for *_, spent in rows)
    if len(runs) == 1:
        slowest = sorted(rows, key=lambda row: -sum(row[2].values()))[:MOST_BARS]
        shown = [(f"worker {rank}", spent) for _, rank, spent in sorted(slowest, key=lambda row: row[1])]
        some = "" if len(rows) == len(shown) else f" (the {MOST_BARS} slowest of {len(rows)})"
        what = f"One bar for each worker{some}: its mean epoch"
    else:
        shown = [(one.label, _mean_phases([spent for row, _, spent in rows if row is one])) for one in runs]
        what = "One bar for each run: the mean epoch of its workers"
    bars = [Bar(name, _time_and_waiting(spent), _segments(spent, names)) for name, spent in shown if spent]
    total = sum(sum(spent.values()) for *_, spent in rows)
    shares = [
        (_css(name), name, percent_text(sum(spent.get(name, 0.0) for *_, spent in rows) / total)) for name in names
    ]
    warm = ", without the first one, which warms up" if any(len(one.files.epochs()) > 2 for one in runs) else ""
    says = f"{what}{warm}. Waiting is what computing did not hide of the wire: {_waits(runs)}."
    data = [
        [
            str(rank) if len(runs) == 1 else f"{one.label}, {rank}",
            *(seconds_text(spent.get(name, 0.0)) for name in names),
            seconds_text(sum(spent.values())),
        ]
        for one, rank, spent in rows
    ]
    head = ["worker" if len(runs) == 1 else "run, worker", *names, "epoch"]
    drawing = tag("div", legend(shares), bar_chart(title, says, bars))
    return figure(title, says, drawing, head, data, wide=True)


def _names(phases: Iterable[dict[str, float]]) -> list[str]:
    """All phases that take time: the usual ones in the order of an epoch, then any others by name."""
    found = {name for spent in phases for name in spent}
    usual = [name for name in (*series.PHASES, "other") if name in found]
    return usual + sorted(found - set(usual))


def _waits(runs: list[ShownRun]) -> str:
    """Which phases are waiting, and for what."""
    if any(_stages(one) > 1 for one in runs):
        return (
            "“wait” for halo rows and for chunks from other stages, “reduce” for weight gradients and for the last "
            "stage to finish"
        )
    return "“wait” for halo rows, “reduce” for weight gradients"


def _mean_phases(phases: list[dict[str, float]]) -> dict[str, float]:
    """The mean of the workers' phases."""
    return {name: fmean(spent.get(name, 0.0) for spent in phases) for name in _names(phases)}


def _time_and_waiting(spent: dict[str, float]) -> str:
    """An epoch's time, and the share of waiting in it."""
    total = sum(spent.values())
    waiting = sum(spent.get(name, 0.0) for name in series.WAITING)
    return f"{seconds_text(total)}, {percent_text(share(waiting, total))} waiting"


def _segments(spent: dict[str, float], names: list[str]) -> list[BarPart]:
    """The phases of an epoch as the segments of a bar."""
    return [BarPart(_css(name), name, spent[name], seconds_text(spent[name])) for name in names if name in spent]


def _css(name: str) -> str:
    """The CSS class of a phase; phases without a colour of their own share one."""
    return name if name in series.PHASES else "other"


def _stages(one: ShownRun) -> float:
    """The number of stages in the summary of a run; 1 if the summary does not say."""
    return number(as_object(one.files.summary.get("mesh")).get("stages", 1))


def _exchanges(one: ShownRun) -> Html | None:
    """What every exchange of an epoch sends, and how long workers wait for it."""
    title = "What was exchanged"
    found = [row for row in series.exchange_totals(one.files) if row[2] > 0]
    if not found:
        return None
    named = [(f"layer {layer}, {way}", way, sent, wait) for layer, way, sent, wait in found]
    shown = named
    if len(found) > MOST_BARS:
        ways = {way: [row for row in found if row[1] == way] for _, way, *_ in found}
        shown = [
            (f"{plural(len(rows), 'layer')}, {way}", way, sum(row[2] for row in rows), sum(row[3] for row in rows))
            for way, rows in ways.items()
        ]
    bars = [
        Bar(
            name,
            join(bytes_text(sent), tag("tspan", f", waited {seconds_text(wait)}", class_="fine")),
            [BarPart(_css(way.removeprefix("stage ")), way, sent, bytes_text(sent))],
        )
        for name, way, sent, wait in shown
    ]
    once = number(one.facts.get("setup_wire_bytes"))
    what = "Chunks, sizes and (between parts) raw features" if _stages(one) > 1 else "Raw features"
    setup = f" {what} were sent once, before the first epoch: {bytes_text(once)}." if once > 0 else ""
    says = f"Bytes per epoch of all workers, and the mean time a worker waited for them.{setup}"
    drawing = tag("div", bar_chart(title, says, bars, thick=8), class_="narrowing")
    data = [[name, bytes_text(sent), seconds_text(wait)] for name, _, sent, wait in named]
    return figure(title, says, drawing, ["exchange", "bytes per epoch", "waited"], data, wide=True)
