"""What all charts share: a frame that is as wide as the page allows, a grid, and labels at the right.

Horizontal positions are per cent of the plot, vertical ones are pixels; labels hang over the plot's edges into padding
that the frame reserves. Curves live in a nested coordinate system that stretches with the plot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from halowire.report.charts.axes import Axis
from halowire.report.markup import Html, join, tag

STRETCH = 1000
"""Units across the nested coordinate system of the curves."""
CHARACTER = 6.9
"""A generous width of a character at the label size, for reserving room."""
SPACING = 16
"""The least distance between labels at the right, in pixels."""
LEAST_RIGHT = 110
"""Room for the usual labels, so that figures below each other line up."""
LONGEST = 15
"""The most characters of a label, so that it leaves the plot some room on a phone."""


@dataclass(frozen=True)
class Plot:
    """Where values lie in a chart: x as a fraction of the width, y in pixels from the top."""

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


@dataclass(frozen=True)
class EndLabel:
    """Words at the right of the plot, for what ends at (x, y) of the plot, in the colour ``slot``."""

    words: str
    x: float
    y: float
    slot: int


def across(fraction: float) -> str:
    """A horizontal position: a fraction of the plot's width as per cent."""
    return f"{100 * fraction:.3f}".rstrip("0").rstrip(".") + "%"


def down(pixels: float) -> str:
    """A vertical position in pixels."""
    return f"{pixels:.1f}".removesuffix(".0")


def frame(title: str, description: str, height: float, padding: tuple[int, int, int, int], *children: object) -> Html:
    """A figure's SVG, an image with title and description, in a box padded (top, right, bottom, left) for labels."""
    words = {"role": "img", "aria_label": f"{title}. {description}"}
    size = {"width": "100%", "height": down(height), "overflow": "visible"}
    drawing = tag("svg", tag("title", title), tag("desc", description), *children, **words, **size)
    return tag("div", drawing, class_="plot", style=f"padding:{' '.join(f'{side}px' for side in padding)}")


def stretched(height: float, *children: object) -> Html:
    """A coordinate system of STRETCH units across the plot's width and of pixels down its height."""
    box = {"viewBox": f"0 0 {STRETCH} {down(height)}", "width": "100%", "height": down(height)}
    return tag("svg", *children, **box, preserveAspectRatio="none", overflow="visible")


def beyond(*children: object) -> Html:
    """A coordinate system in pixels whose origin is the plot's top right corner."""
    return tag("svg", *children, x="100%", overflow="visible")


def sides(plot: Plot, ends: list[EndLabel]) -> tuple[int, int]:
    """Pixels to reserve at the left for the values of the axis, and at the right for the labels."""
    left = _room([label for _, label in plot.axis.ticks], least=21) + 8
    return left, _room([end.words for end in ends], least=LEAST_RIGHT) + 14


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


def end_labels(plot: Plot, ends: list[EndLabel]) -> Html:
    """The labels, pushed apart, with a thin leader where one had to move or its end is not at the right."""
    placed = pushed_apart([end.y for end in ends], plot.height - 2)
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


def pushed_apart(wanted: list[float], height: float, spacing: float = SPACING) -> list[float]:
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


def shorten(label: str) -> str:
    """The label, cut to LONGEST characters where it has more."""
    return label if len(label) <= LONGEST else label[: LONGEST - 1].rstrip() + "…"


def _room(labels: list[str], least: int) -> int:
    """Pixels that the longest of the labels takes, and no less than ``least``."""
    return max([least, *(round(len(label) * CHARACTER) for label in labels)])
