"""A logarithmic axis on which zero has a place of its own, at the beginning."""

from __future__ import annotations

import math
from dataclasses import dataclass

from halowire.report.ticks import WORDS, Axis, Kind, make_axis
from halowire.report.units import BYTE_UNITS

ZERO_ROOM = 0.16
"""The share of the axis before its smallest value, where there are zeros to show."""


@dataclass(frozen=True)
class LogAxis(Axis):
    """An axis whose place grows with the logarithm; ``begin`` is the place of ``low``, zeros lie at 0."""

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
    """An axis that holds all values (finite, none negative); an ordinary one where none is above zero."""
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
    """The closest two different steps that hold all values."""
    low = max((step for step in steps if step <= min(values)), default=min(values))
    return low, min((step for step in steps if step >= max(values) and step > low), default=2 * max(values))


def rounds(kind: Kind, digits: tuple[int, ...] = (1, 2, 5)) -> list[float]:
    """Round values, ascending; of bytes 1, 10 and 100 of every unit stand for the powers of ten."""
    if kind == "bytes":
        units = [1024.0**power for power in range(len(BYTE_UNITS))]
        return [digit * ten * unit for unit in units for ten in (1, 10, 100) for digit in digits]
    return [digit * 10.0**power for power in range(-9, 16) for digit in digits]


def spell(value: float, kind: Kind) -> str:
    """A tick's label: round bytes without decimals."""
    if kind != "bytes":
        return WORDS[kind](value)
    power = max(0, math.floor(math.log(value, 1024) + 1e-9))
    return f"{value / 1024**power:.0f} {BYTE_UNITS[power]}"
