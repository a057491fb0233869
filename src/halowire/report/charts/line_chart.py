"""A line chart draws curves over the epochs, each labelled at its end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean

from halowire.report.charts.plot import WORDS, EndLabel, Kind, Plot, across, down, labelled_ticks, make_axis, tick_below
from halowire.report.markup import Html, figure, join, tag
from halowire.report.units import Points, finite

HEIGHT = 190
STRETCH = 1000
"""Horizontal units of the curves' coordinate system, which stretches with the plot; vertical units are pixels."""
MOST_POINTS = 1500
MOST_HINTS = 150
MOST_ROWS = 400
"""Limits of a long run: points of a curve, columns that can be pointed at, rows of the data table."""
MOST_DOTS = 24
"""Curves of more points than this have a dot at their end only."""


@dataclass(frozen=True)
class Curve:
    """A named line; ``slot`` picks its colour, ``area`` fills it, a ``group`` of curves shares one label."""

    label: str
    points: Points
    slot: int
    area: bool = False
    group: str = ""

    @property
    def values(self) -> list[float]:
        """The values that are known."""
        return finite(value for _, value in self.points)


@dataclass(frozen=True)
class LineChart:
    """What a line chart shows.

    ``unit`` names the values where the axis alone does not. With ``zero`` the axis starts at 0, with ``log`` it is
    logarithmic, with ``robust`` it is cut below a few outliers. ``marks`` are epochs that get a hairline with words,
    ``span`` is the first and the last epoch of the page.
    """

    title: str
    curves: list[Curve]
    kind: Kind
    zero: bool = False
    unit: str = ""
    robust: bool = False
    marks: list[tuple[int, str]] = field(default_factory=list)
    span: tuple[int, int] | None = None
    log: bool = False

    @property
    def epochs(self) -> list[int]:
        """Every epoch at which some curve has a point."""
        return sorted({epoch for curve in self.curves for epoch, _ in curve.points})


def line_figure(chart: LineChart, says: str) -> Html | None:
    """The chart as a figure with a table of its numbers, thinned for a long run; None when no curve has a value."""
    if not any(curve.values for curve in chart.curves):
        return None
    every = math.ceil(len(chart.epochs) / MOST_ROWS)
    values = [dict(curve.points) for curve in chart.curves]
    rows = [[epoch, *(WORDS[chart.kind](one.get(epoch)) for one in values)] for epoch in chart.epochs[::every]]
    head = ["epoch", *(curve.label for curve in chart.curves)]
    data = "Data" if every == 1 else f"Data (one epoch in {every})"
    return figure(chart.title, says, line_chart(chart, says), head, rows, data=data)


def line_chart(chart: LineChart, description: str) -> Html:
    """The chart as SVG; a curve without a known value gets its label only in the data table."""
    curves = [curve for curve in chart.curves if curve.values]
    epochs = sorted({epoch for curve in curves for epoch, _ in curve.points})
    limit = cap(curves) if chart.robust else math.inf
    values = [value for curve in curves for value in curve.values if value <= limit]
    axis = make_axis(values, chart.kind, chart.zero, chart.log)
    first, last = chart.span or ((epochs[0], epochs[-1]) if epochs else (0, 1))
    low, high = (first, last) if last > first else (first - 1, first + 1)
    plot = Plot.tall(axis, low, high, HEIGHT, len(curves))
    box = {"viewBox": f"0 0 {STRETCH} {down(plot.height)}", "width": "100%", "height": down(plot.height)}
    unit = " ".join(part for part in (axis.unit, chart.unit) if part)
    return plot.draw(
        (chart.title, description), _ends(curves, plot), unit, 26,
        _epoch_axis(plot, first, last),
        *(_mark(plot, epoch, words, row) for row, (epoch, words) in enumerate(chart.marks)),
        _off_scale(plot, curves, limit, chart.kind),
        tag("svg", *(_path(plot, curve) for curve in curves), **box, preserveAspectRatio="none", overflow="visible"),
        *(_dots(plot, curve) for curve in curves),
        _hints(plot, curves, chart.kind, epochs),
    )  # fmt: skip


def cap(curves: list[Curve]) -> float:
    """Where to cut the axis: above the cut lie a few outliers (a slow first epoch) that would flatten all else."""
    values = sorted(value for curve in curves for value in curve.values)
    if len(values) < 8:
        return math.inf
    usual = values[int(0.97 * (len(values) - 1))]
    return 1.15 * usual if values[-1] > 1.8 * usual > 0 else math.inf


def thinned(points: Points) -> Points:
    """At most about MOST_POINTS points that keep every peak: the extremes of equal stretches, in order."""
    if len(points) <= MOST_POINTS:
        return points
    size = math.ceil(2 * len(points) / MOST_POINTS)
    kept: Points = []
    for begin in range(0, len(points), size):
        stretch = points[begin : begin + size]
        known = [point for point in stretch if math.isfinite(point[1])] or stretch[:1]
        extremes = {min(known, key=lambda point: point[1]), max(known, key=lambda point: point[1])}
        kept.extend(sorted(extremes))
    return kept


def _path(plot: Plot, curve: Curve) -> Html:
    """The curve, broken where values are missing, and the area below it if the curve has ``area``."""
    pieces: list[list[str]] = [[]]
    spans: list[tuple[float, float]] = []
    for epoch, value in thinned(curve.points):
        if math.isnan(value):
            pieces.append([])
            continue
        x = plot.x(epoch) * STRETCH
        if pieces[-1]:
            spans[-1] = (spans[-1][0], x)
        else:
            spans.append((x, x))
        pieces[-1].append(f"{x:.1f} {plot.y(value):.1f}")
    drawn = [piece for piece in pieces if piece]
    line = "".join("M" + "L".join(piece) + ("h0" if len(piece) == 1 else "") for piece in drawn)
    stroke = tag("path", d=line, class_=f"line s{curve.slot}")
    if not curve.area:
        return stroke
    floor = down(plot.height)
    fill = "".join(
        f"M{start:.1f} {floor}L" + "L".join(piece) + f"L{stop:.1f} {floor}Z"
        for piece, (start, stop) in zip(drawn, spans, strict=True)
    )
    return join(tag("path", d=fill, class_=f"area s{curve.slot}"), stroke)


def _dots(plot: Plot, curve: Curve) -> Html:
    """A dot at the end of a curve, and at every point of a curve with few points."""
    known = [(plot.x(epoch), plot.y(value)) for epoch, value in curve.points if math.isfinite(value)]
    shown = known if len(known) <= MOST_DOTS else known[-1:]
    return join(*(tag("circle", cx=across(x), cy=down(y), r="2.5", class_=f"dot s{curve.slot}") for x, y in shown))


def _epoch_axis(plot: Plot, first: int, last: int) -> Html:
    """Ticks at round epochs, and the word epoch beyond the last of them."""
    ticks = labelled_ticks(first, last, 6, whole=True)
    offset = 10 + round(4 * len(f"{last:,}"))
    word = tag("text", "epoch", x="100%", dx=offset, y=down(plot.height + 18), class_="unit")
    return join(*(tick_below(plot.x(place), plot.height, label) for place, label in ticks), word)


def _mark(plot: Plot, epoch: int, words: str, row: int) -> Html:
    """A hairline at an epoch, with words on the side that has room."""
    x = across(plot.x(epoch))
    return join(
        tag("line", x1=x, x2=x, y1="0", y2=down(plot.height), class_="mark"),
        _note(plot, epoch, words, down(plot.height - 8 - 15 * row), gap=5),
    )


def _off_scale(plot: Plot, curves: list[Curve], limit: float, kind: Kind) -> Html | None:
    """Words for the highest value, if the axis was cut below it."""
    above = [(v, e) for curve in curves for e, v in curve.points if math.isfinite(v) and v > limit]
    if not above:
        return None
    value, epoch = max(above)
    more = f" (and {len(above) - 1} more off the scale)" if len(above) > 1 else " (off the scale)"
    return _note(plot, epoch, f"epoch {epoch}: {WORDS[kind](value)}{more}", "12", gap=6)


def _note(plot: Plot, epoch: int, words: str, y: str, gap: int) -> Html:
    """Words beside an epoch, on the side that has room."""
    place = plot.x(epoch)
    side = {"text_anchor": "end", "dx": -gap} if place > 0.5 else {"text_anchor": "start", "dx": gap}
    return tag("text", words, x=across(place), y=y, class_="note", **side)


def _ends(curves: list[Curve], plot: Plot) -> list[EndLabel]:
    """A label for every group: its name, how many curves it stands for, the (mean) last value."""
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(curve.group or curve.label, []).append(curve)
    ends = []
    for name, members in groups.items():
        points = [next(point for point in reversed(curve.points) if math.isfinite(point[1])) for curve in members]
        value = fmean(value for _, value in points)
        count = f" ×{len(members)}" if len(members) > 1 else ""
        x = plot.x(max(epoch for epoch, _ in points))
        ends.append(EndLabel(name, f"{count} {plot.axis.words(value)}", x, plot.y(value), members[0].slot))
    return ends


def _hints(plot: Plot, curves: list[Curve], kind: Kind, epochs: list[int]) -> Html:
    """Invisible columns that name the values of an epoch when pointed at; no script is needed."""
    every = math.ceil(len(epochs) / MOST_HINTS) if epochs else 1
    shown = epochs[::every]
    values = [dict(curve.points) for curve in curves]
    parts: list[Html] = []
    for index, epoch in enumerate(shown):
        start = 0.0 if index == 0 else (plot.x(shown[index - 1]) + plot.x(epoch)) / 2
        stop = 1.0 if index == len(shown) - 1 else (plot.x(shown[index + 1]) + plot.x(epoch)) / 2
        told = [f"{c.label} {WORDS[kind](v[epoch])}" for c, v in zip(curves, values, strict=True) if epoch in v]
        words = tag("title", f"epoch {epoch}: {', '.join(told)}")
        box = {"x": across(start), "width": across(stop - start), "y": "0", "height": down(plot.height)}
        parts.append(tag("rect", words, **box, class_="hit"))
    return join(*parts)
