"""The figures of what happens inside an epoch: where its time went, what was exchanged, the pipeline's timeline."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from halowire.report import series
from halowire.report.charts import Bar, Segment, bar_chart, legend, timeline_chart
from halowire.report.facts import ShownRun
from halowire.report.markup import Html, data_table, figure, join, tag
from halowire.report.run_timelines import KINDS, WorkerTimeline, mean_bubble, timelines
from halowire.report.units import NOTHING, bytes_text, number, percent_text, plural, seconds_text, share

MOST_BARS = 12
MOST_LINES = 16
"""Bars of a figure, and lines of a timeline; the data table has all of them."""
FORMULA = "(S\u22121)/(C+S\u22121)"
"""The ideal bubble of S stages and C chunks, with minus signs, after which no line breaks."""


def epoch_figures(runs: list[ShownRun]) -> list[Html]:
    """Figures of where the time of an epoch went and, for a single run, of what was exchanged, where it is known."""
    drawn = (_phases(runs), _exchanges(runs[0]) if len(runs) == 1 else None)
    return [one for one in drawn if one is not None]


def _phases(runs: list[ShownRun]) -> Html | None:
    """Where the time of an epoch went: a bar for every worker, or for every run the mean of its workers."""
    title = "Where the time went"
    rows = [(one, rank.rank, spent) for one in runs for rank in one.files.ranks if (spent := series.mean_phases(rank))]
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
    return figure(title, says, drawing, data_table(title, head, data), wide=True)


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


def _segments(spent: dict[str, float], names: list[str]) -> list[Segment]:
    """The phases of an epoch as the segments of a bar."""
    return [Segment(_css(name), name, spent[name], seconds_text(spent[name])) for name in names if name in spent]


def _css(name: str) -> str:
    """The CSS class of a phase; phases without a colour of their own share one."""
    return name if name in series.PHASES else "other"


def _stages(one: ShownRun) -> float:
    """How many stages a run has, as far as its summary tells."""
    mesh = one.files.summary.get("mesh")
    return number(mesh.get("stages")) if isinstance(mesh, dict) else 1


def _exchanges(one: ShownRun) -> Html | None:
    """What every exchange of an epoch sends and how long it is waited for."""
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
            [Segment(_css(way.removeprefix("stage ")), way, sent, bytes_text(sent))],
        )
        for name, way, sent, wait in shown
    ]
    once = number(one.facts.get("setup_wire_bytes"))
    what = "Chunks, sizes and (between parts) raw features" if _stages(one) > 1 else "Raw features"
    setup = f" {what} were sent once, before the first epoch: {bytes_text(once)}." if once > 0 else ""
    says = f"Bytes per epoch of all workers, and the mean time a worker waited for them.{setup}"
    drawing = tag("div", bar_chart(title, says, bars, thick=8), class_="narrowing")
    data = [[name, bytes_text(sent), seconds_text(wait)] for name, _, sent, wait in named]
    return figure(title, says, drawing, data_table(title, ["exchange", "bytes per epoch", "waited"], data), wide=True)


def pipeline_figure(one: ShownRun) -> Html | None:
    """A timeline of one epoch for every worker, and how much of it was bubble; None where none was recorded."""
    title = "One epoch in the pipeline"
    rows = timelines(one.files)
    if not rows:
        return None
    says = _pipeline_says(rows)
    total = sum(row.end for row in rows)
    spent = {kind: seconds for kind in KINDS if (seconds := sum(row.seconds(kind) for row in rows)) > 0}
    shares = legend([(kind, KINDS[kind], percent_text(seconds / total)) for kind, seconds in spent.items()])
    drawing = tag("div", shares, timeline_chart(title, says, rows[:MOST_LINES]), class_="timeline")
    head = ["worker", "stage", "part", "layers", *(KINDS[kind] for kind in spent), "bubble", FORMULA]
    cells = [
        [str(row.rank), str(row.stage), str(row.part), row.layers or NOTHING,
         *(seconds_text(row.seconds(kind)) for kind in spent), percent_text(row.bubble), percent_text(row.ideal)]
        for row in rows
    ]  # fmt: skip
    return tag("div", figure(title, says, drawing, data_table(title, head, cells), wide=True), class_="figures")


def _pipeline_says(rows: list[WorkerTimeline]) -> str:
    """The words below the title of the timeline, with the measured bubble and the ideal one."""
    some = "" if len(rows) <= MOST_LINES else f" ({MOST_LINES} of {len(rows)})"
    words = (
        f"Epoch {rows[0].epoch}, which all workers began together: one line for each worker{some}, one box for each "
        "chunk in its stage. The bubble is the share of the epoch, until all workers are done, in which a worker has "
        f"no chunk in work: {percent_text(mean_bubble(rows))} in the mean"
    )
    if max(row.stage for row in rows) == 0:
        words += "; a single stage has none of its own."
    else:
        words += (
            f". S equal stages and C equal chunks without any transfer have {FORMULA} = {percent_text(rows[0].ideal)}."
        )
        words += " Transfer is coding rows and handing them over; their time on the wire shows as waiting."
    inside = any(row.seconds("exchange") for row in rows)
    return f"{words} Strips inside the boxes are waits for halo rows." if inside else words
