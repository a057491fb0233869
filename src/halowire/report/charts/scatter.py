"""A scatter plot draws points over two axes, each point with its spread and with its name beside the plot."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from halowire.report.charts.plot import WORDS, EndLabel, Kind, Plot, across, down, make_axis, tick_below
from halowire.report.markup import Html, join, tag

HEIGHT = 230
INSET = 0.035
"""The share of the width between the frame and the outermost values, so that no point sits on the frame."""
SPACING_ACROSS, NARROW_SPACING = 0.17, 0.36
"""The least distance between labels below a plot, on a wide page and on a phone, as shares of the plot's width."""


@dataclass(frozen=True)
class Point:
    """A named mean at (x, y), its standard error in y (NaN if unknown), and the single runs behind the mean."""

    label: str
    x: float
    y: float
    error: float
    slot: int
    runs: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class ScatterPlot:
    """What the plot shows: ``words`` name the horizontal axis; ``across`` and ``upward`` are the kinds of the axes.

    ``log`` says that the horizontal axis is logarithmic.
    """

    title: str
    points: list[Point]
    across: Kind
    words: str
    upward: Kind = "percent"
    log: bool = False


def scatter_plot(chart: ScatterPlot, description: str) -> Html:
    """The plot as SVG; names stand at the right, at their point's height, so that they cannot cover each other."""
    shown = [point for point in chart.points if math.isfinite(point.x) and math.isfinite(point.y)]
    vertical = make_axis([y for point in shown for y in _heights(point)], chart.upward, zero=False)
    sideways = [x for point in shown for x in (point.x, *(x for x, _ in point.runs))]
    horizontal = make_axis(sideways, chart.across, zero=True, log=chart.log)
    plot = Plot.tall(vertical, 0.0, 1.0, HEIGHT, len(shown))

    def x(value: float) -> float:
        return INSET + (1 - 2 * INSET) * horizontal.place(value)

    ends = [EndLabel(p.label, f" {vertical.words(p.y)}", x(p.x), plot.y(p.y), p.slot) for p in shown]
    unit = f", {horizontal.unit}" if horizontal.unit else ""
    below = {"x": "50%", "y": down(plot.height + 38), "text_anchor": "middle"}
    drawing = plot.draw(
        (chart.title, description), ends, vertical.unit, 46,
        _ticks([(x(value), label) for value, label in horizontal.ticks], plot.height),
        tag("text", f"{chart.words}{unit}", class_="unit", **below),
        *(_point(point, plot, x(point.x), [(x(at), y) for at, y in point.runs], chart.across) for point in shown),
    )  # fmt: skip
    return tag("div", drawing, class_="scatter")


def roomy(places: list[float], least: float) -> list[float]:
    """The places that are at least ``least`` away from all kept places before them."""
    kept: list[float] = []
    for place in places:
        if all(abs(place - other) >= least for other in kept):
            kept.append(place)
    return kept


def _ticks(ticks: list[tuple[float, str]], height: float) -> Html:
    """Hairlines with their values below; values for which a narrow plot has no room are of class ``fine``."""
    places = [place for place, _ in ticks]
    coarse = roomy(places[:1] + places[-1:] + sorted(places, key=lambda place: abs(place - 0.5)), NARROW_SPACING)
    fine = roomy([*coarse, *places], SPACING_ACROSS)
    drawn = (
        tick_below(place, height, label if place in fine else None, "grid", class_=None if place in coarse else "fine")
        for place, label in ticks
    )
    return join(*drawn)


def _heights(point: Point) -> list[float]:
    """All values that the vertical axis has to hold for a point."""
    about = point.error if math.isfinite(point.error) else 0.0
    return [point.y - about, point.y + about, *(y for _, y in point.runs if math.isfinite(y))]


def _point(point: Point, plot: Plot, x: float, runs: list[tuple[float, float]], kind: Kind) -> Html:
    """The mean as a dot with a hint, its standard error as a bar, and the single runs as faint dots."""
    small = [
        tag("circle", cx=across(at), cy=down(plot.y(y)), r="2.2", class_=f"run s{point.slot}")
        for at, y in runs
        if len(runs) > 1 and math.isfinite(y)
    ]
    about = point.error if math.isfinite(point.error) else 0.0
    said = f"{point.label}: {plot.axis.words(point.y)} at {WORDS[kind](point.x)}"
    at = across(x)
    ends = {"y1": down(plot.y(point.y - about)), "y2": down(plot.y(point.y + about))}
    bar = tag("line", x1=at, x2=at, **ends, class_=f"error s{point.slot}")
    dot = tag("circle", tag("title", said), cx=at, cy=down(plot.y(point.y)), r="4.5", class_=f"dot s{point.slot}")
    return join(*small, bar if about else None, dot)
