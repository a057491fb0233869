"""Charts share axes with round ticks, a frame as wide as the page allows, its grid, and labels at the right.

Horizontal positions are per cent of the plot, vertical positions are pixels; labels hang over the plot's edges into
padding that the frame reserves. Curves have a nested coordinate system that stretches with the plot.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self

from halowire.report.markup import Html, join, tag
from halowire.report.units import BYTE_UNITS, bytes_text, digits, is_share, number_text, percent_text, seconds_text

Kind = Literal["number", "percent", "seconds", "bytes"]
SECOND_UNITS = ((300.0, 60.0, "min"), (0.0995, 1.0, "s"), (1e-3, 1e-3, "ms"))
"""For every unit of an axis of time: the least value in seconds that uses it, its seconds, and its name."""
ZERO_ROOM = 0.16
"""The share of a logarithmic axis that is reserved for zeros, below its smallest value."""
WORDS: dict[Kind, Callable[[object], str]] = {
    "number": number_text, "percent": percent_text, "seconds": seconds_text, "bytes": bytes_text,
}  # fmt: skip
CHARACTER = 6.9
"""A generous width of a character at the label size, for reserving room."""
SPACING = 16
"""The least distance between labels at the right, in pixels."""
LEAST_RIGHT = 110
"""Room for the usual labels, so that figures below each other line up."""
LONGEST = 15
"""The most characters of a label, so that it leaves the plot some room on a phone."""


def metric_kind(metric: str) -> Kind:
    """The kind of axis for a metric: per cent, or plain numbers."""
    return "percent" if is_share(metric) else "number"


def nice_step(span: float, count: int) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that cuts the span into at most count pieces."""
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= rough * (1 - 1e-9))


def ticks_between(low: float, high: float, count: int = 5, whole: bool = False) -> list[float]:
    """About ``count`` round values within [low, high]; only whole numbers where ``whole``."""
    if not high > low:
        return [low]
    step = nice_step(high - low, count)
    if whole:
        step = max(1.0, float(math.ceil(step)))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def labelled_ticks(low: float, high: float, count: int, whole: bool = False) -> list[tuple[float, str]]:
    """The values of :func:`ticks_between`, each with its label."""
    ticks = ticks_between(low, high, count, whole)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
    return [(tick, tick_text(tick, step)) for tick in ticks]


def tick_text(value: float, step: float) -> str:
    """A tick's label with as many decimals as the step needs; thousands separated."""
    decimals = min(6, max(0, -math.floor(math.log10(step) + 1e-9))) if step > 0 else 0
    if abs(step * 10**decimals - round(step * 10**decimals)) > 1e-6:
        decimals += 1
    return f"{value:,.{min(decimals, 6)}f}"


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high``, in the unit of the data; its ticks, each with a label; the unit of the labels.

    ``factor`` is one unit of the labels in the unit of the data: 0.01 where labels are per cent of a fraction.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    unit: str
    factor: float = 1.0
    kind: Kind = "number"

    def words(self, value: float) -> str:
        """The value in the axis's own unit, so that labels compare at a glance; a tiny one in a smaller unit."""
        scaled = value / self.factor
        if self.kind in ("seconds", "bytes") and self.unit != "B" and (abs(scaled) >= 0.01 or value == 0):
            return f"{digits(scaled)} {self.unit}"
        return WORDS[self.kind](value)

    def place(self, value: float) -> float:
        """Where the value lies: 0 at the bottom, 1 at the top, kept within the axis."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def unit_of(kind: Kind, largest: float) -> tuple[float, str]:
    """The factor and the name of the unit that suits an axis whose largest value is given."""
    if kind == "percent":
        return 0.01, "%"
    if kind == "seconds":
        return next(((factor, unit) for least, factor, unit in SECOND_UNITS if largest >= least), (1e-6, "µs"))
    if kind == "bytes":
        power = min(len(BYTE_UNITS) - 1, int(math.log(largest, 1024) + 1e-9)) if largest >= 1 else 0
        return 1024.0**power, BYTE_UNITS[power]
    return 1.0, ""


def make_axis(values: list[float], kind: Kind, zero: bool, log: bool = False) -> Axis:
    """An axis that starts and ends on a tick and holds all ``values`` (finite), and with ``zero`` also 0.

    With ``log`` the axis is logarithmic if some value is above zero, and ``zero`` has no effect.
    """
    if log and any(value > 0 for value in values):
        return _log_axis(values, kind)
    zero = zero or log
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if zero:
        low = min(0.0, low)
    factor, unit = unit_of(kind, max(abs(low), abs(high)))
    low, high = low / factor, high / factor
    if high - low < 1e-9 * max(1.0, abs(high)):
        # A flat line sits in the middle of some room instead of on the frame.
        room = abs(high) * 0.1 or 1.0
        low, high = (low if zero else low - room), high + room
    step = max(nice_step(high - low, 4), 1.0 if unit == "B" else 0.0)
    bottom = math.floor(low / step + 1e-9) * step
    top = max(bottom + step, math.ceil(high / step - 1e-9) * step)
    if kind == "percent" and low >= 0 and high <= 100:
        bottom, top = max(0.0, bottom), min(100.0, top)
    ticks = ticks_between(bottom, top, round((top - bottom) / step))
    labelled = tuple((tick * factor, tick_text(tick, step)) for tick in ticks)
    return Axis(bottom * factor, top * factor, labelled, unit, factor, kind)


@dataclass(frozen=True)
class LogAxis(Axis):
    """An axis on which places grow with the logarithm; ``begin`` is the place of ``low``, and zeros are at place 0."""

    begin: float = 0.0

    def words(self, value: float) -> str:
        """The value in the unit that suits it."""
        return WORDS[self.kind](value)

    def place(self, value: float) -> float:
        """Where the value lies: 0 for zeros, else from ``begin`` at ``low`` to 1 at ``high``."""
        if value <= 0:
            return 0.0
        there = math.log(value / self.low) / math.log(self.high / self.low)
        return self.begin + (1 - self.begin) * min(1.0, max(0.0, there))


def _log_axis(values: list[float], kind: Kind) -> LogAxis:
    """A logarithmic axis that holds all ``values``, finite and not negative, of which one is above zero."""
    above = [value for value in values if value > 0]
    tens, steps = rounds(kind, (1,)), rounds(kind)
    low, high = around(above, tens)
    # Whole powers of ten read best, unless they leave half of the axis empty.
    if math.log(max(above) / min(above)) < 0.5 * math.log(high / low):
        low, high = around(above, steps)
    wholes = [step for step in tens if low <= step <= high]
    inside = wholes if len(wholes) > 2 else [step for step in steps if low <= step <= high]
    if len(inside) < 3 and kind != "bytes":
        # Values are so close that the axis would have only two ticks, too few to read values from.
        finer = rounds(kind, tuple(range(1, 10)))
        low, high = around(above, finer)
        inside = [step for step in finer if low <= step <= high]
    every = math.ceil(len(inside) / 6)
    ticks = [(step, spell(step, kind)) for step in inside[::every]]
    zero = min(values) <= 0
    return LogAxis(low, high, ((0.0, "none"), *ticks) if zero else tuple(ticks), "", 1.0, kind, ZERO_ROOM * zero)


def around(values: list[float], steps: list[float]) -> tuple[float, float]:
    """The largest step below and the smallest step above all values, two different ones."""
    low = max((step for step in steps if step <= min(values)), default=min(values))
    return low, min((step for step in steps if step >= max(values) and step > low), default=2 * max(values))


def rounds(kind: Kind, digits: tuple[int, ...] = (1, 2, 5)) -> list[float]:
    """Round values in ascending order; for bytes, 1, 10 and 100 of every unit take the place of the powers of ten."""
    if kind == "bytes":
        units = [1024.0**power for power in range(len(BYTE_UNITS))]
        return [digit * ten * unit for unit in units for ten in (1, 10, 100) for digit in digits]
    return [digit * 10.0**power for power in range(-9, 16) for digit in digits]


def spell(value: float, kind: Kind) -> str:
    """The label of a tick; bytes are round, so that they need no decimals."""
    if kind != "bytes":
        return WORDS[kind](value)
    power = max(0, math.floor(math.log(value, 1024) + 1e-9))
    return f"{value / 1024**power:.0f} {BYTE_UNITS[power]}"


@dataclass(frozen=True)
class EndLabel:
    """Words at the right of the plot for the curve or point at (x, y): its name, its value and its colour."""

    name: str
    value: str
    x: float
    y: float
    slot: int

    @property
    def words(self) -> str:
        """Name and value; a name of more than LONGEST characters is cut."""
        name = self.name if len(self.name) <= LONGEST else self.name[: LONGEST - 1].rstrip() + "…"
        return f"{name}{self.value}"


@dataclass(frozen=True)
class Plot:
    """Where values lie in a chart: x as a fraction of the width, y in pixels from the top."""

    axis: Axis
    low: float
    high: float
    height: float

    @classmethod
    def tall(cls, axis: Axis, low: float, high: float, least: float, labels: int) -> Self:
        """A plot at least ``least`` pixels high that has room for ``labels`` labels at its right."""
        return cls(axis, low, high, max(least, SPACING * (labels + 1)))

    def x(self, epoch: float) -> float:
        """The epoch's place, 0 at the left, 1 at the right."""
        return (epoch - self.low) / (self.high - self.low)

    def y(self, value: float) -> float:
        """The value's pixels from the top."""
        return self.height * (1 - self.axis.place(value))

    def draw(self, words: tuple[str, str], ends: list[EndLabel], unit: str, below: int, *children: object) -> Html:
        """The chart as SVG: the grid with the ``unit`` of its values, the labels ``ends``, and over both the children.

        ``words`` are title and description; ``below`` is the number of pixels to reserve under the plot.
        """
        left = _room([label for _, label in self.axis.ticks], least=21) + 8
        right = _room([end.words for end in ends], least=LEAST_RIGHT) + 14
        parts: list[Html] = []
        for index, (value, label) in enumerate(self.axis.ticks):
            y = down(self.y(value))
            parts.append(tag("line", x1="0", x2="100%", y1=y, y2=y, class_="grid base" if index == 0 else "grid"))
            parts.append(tag("text", label, x="-8", y=y, dy="0.32em", text_anchor="end"))
        if unit:
            parts.append(tag("text", unit, x=-left, y="-14", class_="unit"))
        return frame(*words, self.height, (26, right, below, left), *parts, self._labels(ends), *children)

    def _labels(self, ends: list[EndLabel]) -> Html:
        """The labels, pushed apart, with a thin line to a label that had to move or whose curve ends further left."""
        placed = pushed_apart([end.y for end in ends], self.height - 2)
        parts: list[Html] = []
        leaders: list[Html] = []
        for end, y in zip(ends, placed, strict=True):
            at = down(end.y)
            if end.x < 0.995:
                leaders.append(tag("line", x1=across(end.x), x2="100%", y1=at, y2=at, class_=f"leader s{end.slot}"))
            if abs(y - end.y) > 4:
                parts.append(tag("line", x1="3", y1=at, x2="9", y2=down(y), class_=f"leader s{end.slot}"))
            parts.append(tag("text", end.words, x="11", y=down(y), dy="0.32em", class_=f"end s{end.slot}"))
        # A coordinate system in pixels, whose origin is the plot's top right corner.
        return join(*leaders, tag("svg", *parts, x="100%", overflow="visible"))


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


def tick_below(place: float, height: float, words: str | None, line: str = "tick", **style: object) -> Html:
    """A tick below the plot, or through it if ``line`` is ``grid``, with its words if there are any."""
    x = across(place)
    top = "0" if line == "grid" else down(height)
    label = {"x": x, "y": down(height + 18), "text_anchor": "middle"} | style
    return join(
        tag("line", x1=x, x2=x, y1=top, y2=down(height + 4), class_=line),
        None if words is None else tag("text", words, **label),
    )


def pushed_apart(wanted: list[float], height: float, spacing: float = SPACING) -> list[float]:
    """Positions near ``wanted``, at least ``spacing`` apart and within ``height``, in the same order as given."""
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


def _room(labels: list[str], least: int) -> int:
    """Pixels that the longest of the labels takes, but at least ``least``."""
    return max([least, *(round(len(label) * CHARACTER) for label in labels)])
