"""Axes: round tick values, and the unit a whole axis is written in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from halowire.report.units import BYTE_UNITS, bytes_text, digits, is_share, number_text, percent_text, seconds_text

Kind = Literal["number", "percent", "seconds", "bytes"]

SECOND_UNITS = ((300.0, 60.0, "min"), (0.0995, 1.0, "s"), (1e-3, 1e-3, "ms"))

WORDS: dict[Kind, Callable[[object], str]] = {
    "number": number_text,
    "percent": percent_text,
    "seconds": seconds_text,
    "bytes": bytes_text,
}


def metric_kind(metric: str) -> Kind:
    """The kind of axis for a metric: per cent, or plain numbers."""
    return "percent" if is_share(metric) else "number"


def nice_step(span: float, count: int) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that cuts the span into at most count pieces."""
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= rough * (1 - 1e-9))


def ticks_between(low: float, high: float, count: int = 5, whole: bool = False) -> list[float]:
    """Round values within [low, high]; whole numbers only where asked."""
    if not high > low:
        return [low]
    step = nice_step(high - low, count)
    if whole:
        step = max(1.0, float(math.ceil(step)))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def tick_text(value: float, step: float) -> str:
    """A tick's label with as many decimals as the step needs; thousands separated."""
    decimals = min(6, max(0, -math.floor(math.log10(step) + 1e-9))) if step > 0 else 0
    if abs(step * 10**decimals - round(step * 10**decimals)) > 1e-6:
        decimals += 1
    return f"{value:,.{min(decimals, 6)}f}"


@dataclass(frozen=True)
class Axis:
    """A vertical axis: data from low to high, tick positions in data units with their labels, the unit's name."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    unit: str
    factor: float = 1.0
    kind: Kind = "number"

    def words(self, value: float) -> str:
        """The value in the axis's own unit, so that labels compare at a glance; in another one where it is tiny."""
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


def make_axis(values: list[float], kind: Kind, zero: bool) -> Axis:
    """An axis that starts and ends on a tick and holds all values (finite); it starts at 0 where asked."""
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
    ticks = tuple(
        (tick * factor, tick_text(tick, step)) for tick in ticks_between(bottom, top, round((top - bottom) / step))
    )
    return Axis(bottom * factor, top * factor, ticks, unit, factor, kind)
