"""Linear and logarithmic axes: their round tick values, and the unit in which all their labels are written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from halowire.report.units import BYTE_UNITS, bytes_text, digits, is_share, number_text, percent_text, seconds_text

Kind = Literal["number", "percent", "seconds", "bytes"]

SECOND_UNITS = ((300.0, 60.0, "min"), (0.0995, 1.0, "s"), (1e-3, 1e-3, "ms"))

ZERO_ROOM = 0.16
"""The share of a logarithmic axis that is reserved for zeros, below its smallest value."""

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
    """About ``count`` round values within [low, high]; only whole numbers where ``whole``."""
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


def make_axis(values: list[float], kind: Kind, zero: bool) -> Axis:
    """An axis that starts and ends on a tick and holds all ``values`` (finite), and with ``zero`` also 0."""
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


def make_log_axis(values: list[float], kind: Kind) -> Axis:
    """A logarithmic axis that holds all ``values``, finite and not negative; a linear one where none is above zero."""
    above = [value for value in values if value > 0]
    if not above:
        return make_axis(values, kind, zero=True)
    tens, steps = rounds(kind, (1,)), rounds(kind)
    low, high = around(above, tens)
    # Whole powers of ten read best, unless they leave half of the axis empty.
    if math.log(max(above) / min(above)) < 0.5 * math.log(high / low):
        low, high = around(above, steps)
    wholes = [step for step in tens if low <= step <= high]
    inside = wholes if len(wholes) > 2 else [step for step in steps if low <= step <= high]
    if len(inside) < 3 and kind != "bytes":
        # Close values: two ticks would leave the eye without a measure.
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
