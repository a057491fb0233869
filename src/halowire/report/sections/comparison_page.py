"""The page of a comparison of recipes: its headline, its table, its figures, and every run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from halowire.errors import InputError
from halowire.events import LOWER_IS_BETTER
from halowire.files import write_text
from halowire.report import charts, series
from halowire.report.comparison_record import count_line, metric_of, ratio_text, recipe_columns
from halowire.report.markup import Compared, Html, best_table, brand, figure, fold, join, notes_list, page, table, tag
from halowire.report.run_files import RunFiles, read_object, read_run
from halowire.report.sections.run_figures import lowest_is_near_zero
from halowire.report.sections.run_settings import repeat_comparison
from halowire.report.sections.runs_page import ranges, results_of, sentence
from halowire.report.units import (
    Json,
    Points,
    bytes_text,
    error_of,
    is_share,
    mean_of,
    metric_text,
    metric_words,
    number,
    number_text,
    percent_text,
    plural,
    seconds_text,
    share,
)

SLOTS = (0, 1, 2, 3, 4, 6, 7, 8)
"""Colours of the recipes of a comparison, in their order; grey is kept for the recipe that sends no rows."""
GREY = 5
CLOSE = 0.003
"""How far below `exact` the metric of a recipe may be (as a fraction) for the headline to call it as good."""


class Cost(NamedTuple):
    """A cost against which accuracy is drawn: its key in the record, its name in a title, its words on the axis."""

    key: str
    kind: charts.Kind
    name: str
    words: str
    says: str


COSTS = (
    Cost("halo_bytes", "bytes", "bytes", "halo bytes of the whole training", "The axis of bytes is logarithmic."),
    Cost("train_seconds", "seconds", "time", "time of all training epochs",
         "Time is the median epoch times the number of epochs."),
)  # fmt: skip


@dataclass(frozen=True)
class ComparedRecipe(Compared):
    """A recipe on the page: its name, colour and means over the seeds, and the entries and folders of its runs."""

    entries: list[Json]
    runs: list[RunFiles]


def write_compare_page(folder: Path) -> Path:
    """Write `compare.html` beside the `compare.json` in ``folder``."""
    record = read_object(folder / "compare.json")
    if "runs" not in record:
        raise InputError(f"{folder} has no readable compare.json: give the folder that `halowire compare --out` wrote")
    recipes = _compared(record, folder)
    content = [*_top_of_comparison(record, recipes), *_sections_of_comparison(record, recipes)]
    target = folder / "compare.html"
    write_text(target, page(f"{record['graph']}: {', '.join(record['recipes'])}", content, str(folder)))
    return target


def _compared(record: Json, folder: Path) -> list[ComparedRecipe]:
    """The recipes that have a finished run, each with a colour of its own."""
    slots = iter(SLOTS * len(record["recipes"]))
    found = []
    for name in record["recipes"]:
        slot = GREY if name == "isolated" else next(slots)
        entries = [run for run in record["runs"] if run["recipe"] == name]
        if entries:
            runs = [read_run(folder / run["folder"]) for run in entries]
            found.append(ComparedRecipe(name, slot, record["aggregated"][name], entries, runs))
    return found


def _top_of_comparison(record: Json, recipes: list[ComparedRecipe]) -> list[object]:
    """The headline, what was compared, what to beware of, and the table."""
    missing = len(record["recipes"]) * len(record["seeds"]) - len(record["runs"])
    warnings = [f"{plural(missing, 'run')} of the comparison not finished yet."] if missing else []
    warnings += [str(note) for note in record.get("notes", [])]
    settings = [f"{name.replace('_', '-')} {value}" for name, value in record["settings"].items()]
    side_by_side = best_table("recipe", recipes, recipe_columns(record), "Comparison of the recipes")
    under = tag("p", count_line(record), class_="quiet under")
    return [
        brand("comparison"),
        tag("h1", comparison_headline(record, recipes)),
        tag("p", ", ".join([f"{plural(len(record['runs']), 'run')} finished", *settings]), class_="sub"),
        notes_list(warnings),
        tag("div", side_by_side, under, class_="compare-box") if recipes else None,
    ]


def _sections_of_comparison(record: Json, recipes: list[ComparedRecipe]) -> list[object]:
    """The figures, the recipes in words, every run, and how to repeat the comparison."""
    if not recipes:
        return []
    figures = comparison_figures(record, recipes)
    words = [[name, summary] for name, summary in record.get("summaries", {}).items()]
    return [
        *([tag("h2", "How they compare"), tag("div", *figures, class_="figures")] if figures else []),
        tag("h2", "The recipes"),
        table([], words, "The recipes", class_="words"),
        fold("Every run", _every_run(record)),
        tag("h2", "Run it again"),
        repeat_comparison(record),
    ]


def _every_run(record: Json) -> Html:
    """A table of the numbers of every run."""
    spell = partial(metric_text, metric_of(record))
    heads = ("test", "validation", "loss", "best epoch", "epochs", "time per epoch", "halo bytes per epoch")
    rows = [
        [
            run["folder"], spell(run["test"]), spell(run["val"]), number_text(run["train_loss"]),
            run["best_epoch"], run["epochs"], seconds_text(run["epoch_seconds"]),
            bytes_text(run["halo_bytes_per_epoch"]),
        ]
        for run in record["runs"]
    ]  # fmt: skip
    return table(["run", *heads], rows, "Every run")


def comparison_headline(record: Json, recipes: list[ComparedRecipe]) -> Html:
    """A sentence about the cheapest recipe that is as good as `exact`, or else about the range that was reached."""
    begin = f"{record['graph']}, {plural(record['workers'], 'worker')}, {plural(len(record['seeds']), 'seed')}"
    metric = metric_of(record)
    if not recipes:
        return join(f"{begin}: no run is finished yet")
    # A difference of 0.3 points is little for a fraction; nobody knows how much is little for an error such as RMSE.
    close = [one for one in recipes if is_share(metric) and _as_good(one)]
    if not close:
        means = [{key: mean_of(one.numbers[key]) for key in ("test", "halo_bytes")} for one in recipes]
        results = [results_of(metric)[0], ("halo_bytes", bytes_text, "of halo bytes in training")]
        return sentence(begin, ranges(means, results))
    best = min(close, key=lambda one: mean_of(one.numbers["halo_bytes"]))
    against = best.numbers["to_exact"]
    gap = 100 * mean_of(against["test"])
    where = f"{abs(gap):.2f} points {'above' if gap > 0 else 'below'} exact" if abs(gap) >= 0.005 else "as exact does"
    return join(
        f"{begin}: {best.name} reaches ", tag("b", metric_text(metric, mean_of(best.numbers["test"]))),
        f" test {metric_words(metric)}, {where}, with ", tag("b", _part(mean_of(against["halo_bytes"]))),
        " of its halo bytes and ", tag("b", _part(mean_of(against["seconds"]))), " of its time",
    )  # fmt: skip


def comparison_figures(record: Json, recipes: list[ComparedRecipe]) -> list[Html]:
    """All figures for which there is data."""
    costs = (_scatter(record, recipes, cost) for cost in COSTS)
    drawn = (*costs, _bytes_per_epoch(recipes), _loss(recipes), _time_per_epoch(recipes))
    return [one for one in drawn if one is not None]


def _as_good(one: ComparedRecipe) -> bool:
    """Whether a recipe sends fewer bytes than `exact` and is at most ``CLOSE`` below it."""
    against = one.numbers.get("to_exact", {})
    return mean_of(against.get("test")) >= -CLOSE and 0 < mean_of(against.get("halo_bytes")) < 1


def _part(fraction: float) -> str:
    """A share inside a sentence: 71%, 1/22."""
    return ratio_text(fraction) if fraction < 0.0995 else f"{100 * fraction:.0f}%"


def _scatter(record: Json, recipes: list[ComparedRecipe], cost: Cost) -> Html | None:
    """A figure with a point for every recipe: the mean of its test metric over the mean of its ``cost``."""
    points = []
    for one in recipes:
        single = [(number(run[cost.key]), number(run["test"])) for run in one.entries]
        x, y = mean_of(one.numbers[cost.key]), mean_of(one.numbers["test"])
        if math.isfinite(x) and math.isfinite(y):
            points.append(charts.Point(one.name, x, y, error_of(one.numbers["test"]), one.slot, single))
    if not points:
        return None
    metric = metric_of(record)
    title = f"Test {metric_words(metric)} against {cost.name}"
    says = f"{'Lower' if metric in LOWER_IS_BETTER else 'Upper'} left is better. {cost.says}"
    log = cost.kind == "bytes"
    if log and len(record["seeds"]) > 1:
        says += " Large dots: means, with standard error; small dots: single seeds."
    chart = charts.ScatterPlot(title, points, cost.kind, cost.words, charts.metric_kind(metric), log)
    quality, spell = recipe_columns(record)[0], charts.WORDS[cost.kind]
    rows = [[one.name, quality.cell(one.numbers), spell(mean_of(one.numbers[cost.key]))] for one in recipes]
    return figure(title, says, charts.scatter_plot(chart, says), ["recipe", quality.head, cost.words], rows)


def _over_epochs(recipes: list[ComparedRecipe], points: Callable[[RunFiles], Points]) -> list[charts.Curve]:
    """A curve for every recipe, at every epoch the mean over its seeds."""
    return [charts.Curve(one.name, series.mean_curve(map(points, one.runs)), one.slot) for one in recipes]


def _bytes_per_epoch(recipes: list[ComparedRecipe]) -> Html | None:
    """Bytes per epoch, on a logarithmic axis because recipes differ by orders of magnitude."""
    curves = _over_epochs(recipes, series.wire_bytes)
    says = (
        "Halo rows and their gradients, sent by all workers; weight gradients are not counted. The axis is logarithmic."
    )
    if not any(value > 0 for curve in curves for value in curve.values):
        says = "Nothing crossed the wire: one worker has no halos."
    return charts.line_figure(charts.LineChart("Bytes per epoch", curves, "bytes", unit="per epoch", log=True), says)


def _loss(recipes: list[ComparedRecipe]) -> Html | None:
    """The training loss over the epochs."""
    curves = _over_epochs(recipes, series.losses)
    chart = charts.LineChart("Training loss", curves, "number", unit="loss", zero=lowest_is_near_zero(curves))
    return charts.line_figure(chart, "Mean over the training nodes of all workers, and over the seeds.")


def _time_per_epoch(recipes: list[ComparedRecipe]) -> Html | None:
    """The median epoch of every recipe: computing, and waiting for the wire."""
    title = "Time per epoch"
    bars, rows = [], []
    for one in recipes:
        whole, waiting = mean_of(one.numbers["epoch_seconds"]), mean_of(one.numbers["wait_seconds"])
        if not whole > 0:
            continue
        waiting = min(waiting, whole) if waiting > 0 else 0.0
        part = percent_text(share(waiting, whole))
        segments = [
            charts.Segment("forward", "computing", whole - waiting, seconds_text(whole - waiting)),
            charts.Segment("wait", "waiting", waiting, seconds_text(waiting)),
        ]
        bars.append(charts.Bar(one.name, f"{seconds_text(whole)}, {part} waiting", segments))
        against = ratio_text(mean_of(one.numbers.get("to_exact", {}).get("seconds")))
        rows.append([one.name, seconds_text(whole), seconds_text(waiting), part, against])
    if not bars:
        return None
    says = "The median training epoch, without evaluation; waiting is what computing did not hide of the wire."
    names = charts.legend([("forward", "computing", ""), ("wait", "waiting for the wire", "")])
    drawing = tag("div", names, charts.bar_chart(title, says, bars, thick=8))
    head = ["recipe", "epoch", "waiting", "share of waiting", "ratio to exact"]
    return figure(title, says, drawing, head, rows, wide=True)
