"""Curves over the epochs, each labelled at its end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean

from halowire.report.log_axis import make_log_axis
from halowire.report.markup import Html, join, tag
from halowire.report.series import Points, finite
from halowire.report.svg import STRETCH, across, beyond, down, frame, room, stretched
from halowire.report.ticks import WORDS, Axis, Kind, make_axis, tick_text, ticks_between

HEIGHT = 190
SPACING = 16
MOST_POINTS = 1500
MOST_BANDS = 150
LEAST_RIGHT = 110
"""Room for the usual labels, so that figures below each other line up."""


@dataclass(frozen=True)
class Curve:
    """A named line; ``slot`` picks its colour, ``area`` fills it, a ``group`` of curves shares one label."""

    label: str
    points: Points
    slot: int
    area: bool = False
    group: str = ""


@dataclass(frozen=True)
class Chart:
    """What a line chart shows; ``unit`` names the values where the axis alone does not,
    ``marks`` are epochs worth a hairline with words, ``span`` are the first and the last epoch of the page,
    ``log`` makes the values' axis logarithmic."""

    title: str
    curves: list[Curve]
    kind: Kind
    zero: bool = False
    unit: str = ""
    robust: bool = False
    marks: list[tuple[int, str]] = field(default_factory=list)
    span: tuple[int, int] | None = None
    log: bool = False


def line_chart(chart: Chart, description: str) -> Html:
    """The chart as SVG; a curve without a known value gets its label only in the data table."""
    curves = [curve for curve in chart.curves if finite(value for _, value in curve.points)]
    epochs = sorted({epoch for curve in curves for epoch, _ in curve.points})
    limit = cap(curves) if chart.robust else math.inf
    values = [value for curve in curves for value in finite(v for _, v in curve.points) if value <= limit]
    axis = make_log_axis(values, chart.kind) if chart.log else make_axis(values, chart.kind, chart.zero)
    first, last = chart.span or ((epochs[0], epochs[-1]) if epochs else (0, 1))
    low, high = (first, last) if last > first else (first - 1, first + 1)
    height = max(HEIGHT, SPACING * (len(curves) + 1))
    plot = Plot(axis, low, high, height)
    ends = ends_of(curves, plot)
    unit = " ".join(part for part in (axis.unit, chart.unit) if part)
    right = max(room([end.words for end in ends]), LEAST_RIGHT) + 14
    left = room([label for _, label in axis.ticks], least=21) + 8
    return frame(
        chart.title,
        description,
        height,
        (26, right, 26, left),
        grid(plot, unit, left),
        x_axis(plot, first, last),
        *(mark(plot, epoch, words, row) for row, (epoch, words) in enumerate(chart.marks)),
        off_scale(plot, curves, limit, chart.kind),
        stretched(height, *(path(plot, curve) for curve in curves)),
        *(dots(plot, curve) for curve in curves),
        end_labels(plot, ends),
        bands(plot, curves, chart.kind, epochs),
    )


@dataclass(frozen=True)
class Plot:
    """Where values lie: x as a fraction of the width, y in pixels from the top."""

    axis: Axis
    low: float
    high: float
    height: float

    def x(self, epoch: float) -> float:
        """The epoch's place, 0 at the left, 1 at the right."""
        return (epoch - self.low) / (self.high - self.low)

    def y(self, value: float) -> float:
        """The value's pixels from the top."""
        return self.height * (1 - self.axis.place(value))


def cap(curves: list[Curve]) -> float:
    """The value above which a few outliers (a slow first epoch) would squeeze everything else flat."""
    values = sorted(value for curve in curves for value in finite(v for _, v in curve.points))
    if len(values) < 8:
        return math.inf
    usual = values[int(0.97 * (len(values) - 1))]
    return 1.15 * usual if values[-1] > 1.8 * usual > 0 else math.inf


def shorten(label: str, most: int = 15) -> str:
    """A label that leaves the plot some room on a phone."""
    return label if len(label) <= most else label[: most - 1].rstrip() + "…"


def end_of(curve: Curve) -> tuple[int, float]:
    """The curve's last known point."""
    return next((epoch, value) for epoch, value in reversed(curve.points) if math.isfinite(value))


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


def path(plot: Plot, curve: Curve) -> Html:
    """The curve, broken where values are missing; with its area where asked."""
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


def dots(plot: Plot, curve: Curve) -> Html:
    """A dot at the end, and at every point where there are few."""
    known = [(epoch, value) for epoch, value in curve.points if math.isfinite(value)]
    shown = known if len(known) <= 24 else known[-1:]
    return join(
        *(
            tag("circle", cx=across(plot.x(e)), cy=down(plot.y(v)), r="2.5", class_=f"dot s{curve.slot}")
            for e, v in shown
        )
    )


def grid(plot: Plot, unit: str, left: int) -> Html:
    """Hairlines with their values on the left, and the unit above them."""
    parts: list[Html] = []
    for index, (value, label) in enumerate(plot.axis.ticks):
        y = down(plot.y(value))
        parts.append(tag("line", x1="0", x2="100%", y1=y, y2=y, class_="grid base" if index == 0 else "grid"))
        parts.append(tag("text", label, x="-8", y=y, dy="0.32em", text_anchor="end"))
    if unit:
        parts.append(tag("text", unit, x=-left, y="-14", class_="unit"))
    return join(*parts)


def x_axis(plot: Plot, first: int, last: int) -> Html:
    """Ticks at round epochs, and the word epoch beyond the last of them."""
    places = ticks_between(first, last, 6, whole=True)
    step = places[1] - places[0] if len(places) > 1 else 1
    parts: list[Html] = []
    for place in places:
        x = across(plot.x(place))
        parts.append(tag("line", x1=x, x2=x, y1=down(plot.height), y2=down(plot.height + 4), class_="tick"))
        parts.append(tag("text", tick_text(place, step), x=x, y=down(plot.height + 18), text_anchor="middle"))
    offset = 10 + round(4 * len(tick_text(last, 1)))
    parts.append(beyond(tag("text", "epoch", x=offset, y=down(plot.height + 18), class_="unit")))
    return join(*parts)


def mark(plot: Plot, epoch: int, words: str, row: int) -> Html:
    """A hairline at an epoch, with words on the side that has room."""
    place = plot.x(epoch)
    side = {"text_anchor": "end", "dx": "-5"} if place > 0.5 else {"text_anchor": "start", "dx": "5"}
    x = across(place)
    return join(
        tag("line", x1=x, x2=x, y1="0", y2=down(plot.height), class_="mark"),
        tag("text", words, x=x, y=down(plot.height - 8 - 15 * row), class_="note", **side),
    )


def off_scale(plot: Plot, curves: list[Curve], limit: float, kind: Kind) -> Html | None:
    """Words for the highest value where the axis was cut below it."""
    beyond_it = [(v, e) for curve in curves for e, v in curve.points if math.isfinite(v) and v > limit]
    if not beyond_it:
        return None
    value, epoch = max(beyond_it)
    more = f" (and {len(beyond_it) - 1} more off the scale)" if len(beyond_it) > 1 else " (off the scale)"
    place = plot.x(epoch)
    side = {"text_anchor": "end", "dx": "-6"} if place > 0.5 else {"text_anchor": "start", "dx": "6"}
    return tag("text", f"epoch {epoch}: {WORDS[kind](value)}{more}", x=across(place), y="12", class_="note", **side)


def spread(wanted: list[float], height: float, spacing: float = SPACING) -> list[float]:
    """Positions near the wanted ones, at least the spacing apart and within the height, in the same order as given."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed = [0.0] * len(wanted)
    floor = -math.inf
    for index in order:
        placed[index] = max(wanted[index], floor)
        floor = placed[index] + spacing
    ceiling = height
    for index in reversed(order):
        placed[index] = min(placed[index], ceiling)
        ceiling = placed[index] - spacing
    return placed


@dataclass(frozen=True)
class End:
    """The label of a curve, or of a group of them at the mean of their last points: words, place, colour."""

    words: str
    x: float
    y: float
    slot: int


def ends_of(curves: list[Curve], plot: Plot) -> list[End]:
    """The labels, one for every group: the name, how many curves it stands for, the (mean) last value."""
    found: dict[str, list[Curve]] = {}
    for curve in curves:
        found.setdefault(curve.group or curve.label, []).append(curve)
    ends = []
    for name, members in found.items():
        points = [end_of(curve) for curve in members]
        value = fmean(value for _, value in points)
        count = f" ×{len(members)}" if len(members) > 1 else ""
        x = plot.x(max(epoch for epoch, _ in points))
        ends.append(End(f"{shorten(name)}{count} {plot.axis.words(value)}", x, plot.y(value), members[0].slot))
    return ends


def end_labels(plot: Plot, ends: list[End]) -> Html:
    """The labels beside the curves' ends, pushed apart, with a thin leader where one had to move."""
    placed = spread([end.y for end in ends], plot.height - 2)
    parts: list[Html] = []
    leaders: list[Html] = []
    for end, y in zip(ends, placed, strict=True):
        at = down(end.y)
        if end.x < 0.995:
            leaders.append(tag("line", x1=across(end.x), x2="100%", y1=at, y2=at, class_=f"leader s{end.slot}"))
        if abs(y - end.y) > 4:
            parts.append(tag("line", x1="3", y1=at, x2="9", y2=down(y), class_=f"leader s{end.slot}"))
        parts.append(tag("text", end.words, x="11", y=down(y), dy="0.32em", class_=f"end s{end.slot}"))
    return join(*leaders, beyond(*parts))


def bands(plot: Plot, curves: list[Curve], kind: Kind, epochs: list[int]) -> Html:
    """Invisible columns that name the values of an epoch when pointed at; no script is needed."""
    every = math.ceil(len(epochs) / MOST_BANDS) if epochs else 1
    shown = epochs[::every]
    values = [dict(curve.points) for curve in curves]
    parts: list[Html] = []
    for index, epoch in enumerate(shown):
        start = 0.0 if index == 0 else (plot.x(shown[index - 1]) + plot.x(epoch)) / 2
        stop = 1.0 if index == len(shown) - 1 else (plot.x(shown[index + 1]) + plot.x(epoch)) / 2
        told = [f"{c.label} {WORDS[kind](v[epoch])}" for c, v in zip(curves, values, strict=True) if epoch in v]
        words = tag("title", f"epoch {epoch}: {', '.join(told)}")
        parts.append(
            tag(
                "rect",
                words,
                x=across(start),
                width=across(stop - start),
                y="0",
                height=down(plot.height),
                class_="hit",
            )
        )
    return join(*parts)
