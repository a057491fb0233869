"""The figures over the epochs: loss, metric, time, bytes, coding error, learning rate; of one run or several."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

from halowire.report import series
from halowire.report.charts import Curve, LineChart, line_figure, metric_kind
from halowire.report.facts import COLOURS, ShownRun
from halowire.report.markup import Html
from halowire.report.run_files import RunFiles
from halowire.report.units import Points, capitalised, metric_text, metric_words, number_text, seconds_text

MOST_CURVES = 6
"""A run with more layers than this gets one curve, their mean."""
SPLITS = {"train": 5, "val": 0, "test": 1}
"""The splits of the nodes, each with its colour."""
TRAVELS = {
    "forward": "halo rows",
    "backward": "gradients of halo rows",
    "stage forward": "rows between stages",
    "stage backward": "gradients between stages",
}
"""What travels in each direction, in the order of the figures."""


def curve_figures(runs: list[ShownRun]) -> list[Html]:
    """All figures over the epochs for which there is something to show."""
    drawn = [_loss(runs), _quality(runs), _time(runs), _bytes(runs)]
    drawn += [*(_code_error(runs, direction) for direction in TRAVELS), _learning_rate(runs)]
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
    """A curve for every run, named after it; ``alone`` is the name where there is only one."""
    if len(runs) == 1:
        return [Curve(alone, points(runs[0].files), runs[0].slot)]
    return [Curve(one.label, points(one.files), one.slot, group=one.group) for one in runs]


def _loss(runs: list[ShownRun]) -> Html | None:
    """The training loss, and where it was not a number."""
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
    """The metric at every evaluation: all splits of one run, validation of several."""
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
    """Seconds per training epoch, and how much of it is waiting."""
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
    """How much coding changed the rows or gradients that travelled; None where all travelled unchanged."""
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
    """The learning rate, where it changes."""
    curves = _curves(runs, series.learning_rates, "rate")
    if all(len(set(curve.values)) <= 1 for curve in curves):
        return None
    chart = LineChart("Learning rate", curves, "number", unit="learning rate", zero=True)
    return _figure(runs, chart, "The rate of every epoch, as scheduled.")
