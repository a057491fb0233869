"""Horizontal bars on one scale that starts at zero: name and total above each, values inside where there is room."""

from __future__ import annotations

from dataclasses import dataclass

from halowire.report.charts.plot import across, down, frame
from halowire.report.markup import Html, join, tag

THICK = 20
ABOVE = 22
BELOW = 9
"""Pixels of a bar, of the line of words above it, and of the gap below it."""
LEAST_FOR_TEXT = 0.17
"""The share of the width that a segment needs to have its value written inside."""


@dataclass(frozen=True)
class Segment:
    """A piece of a bar: the class that colours it, what it is, its value as a number and in words."""

    kind: str
    name: str
    value: float
    words: str


@dataclass(frozen=True)
class Bar:
    """One bar: its name, what stands at its right, and its segments from left to right."""

    name: str
    total: object
    segments: list[Segment]


def bar_chart(title: str, description: str, bars: list[Bar], thick: int = THICK) -> Html:
    """The bars on one common scale; thin ones have no words inside."""
    longest = max((sum(segment.value for segment in bar.segments) for bar in bars), default=0.0) or 1.0
    pitch = ABOVE + thick + BELOW
    drawn = [_bar(bar, longest, index * pitch, thick) for index, bar in enumerate(bars)]
    return frame(title, description, pitch * len(bars) - BELOW, (4, 0, 4, 0), *drawn)


def legend(entries: list[tuple[str, str, str]]) -> Html:
    """The names of the colours: (class, name, words) as swatches in a line that wraps."""
    return tag(
        "ul",
        *(tag("li", tag("i", class_=f"swatch {kind}"), name, " ", tag("b", words)) for kind, name, words in entries),
        class_="key",
    )


def _bar(bar: Bar, longest: float, top: float, thick: int) -> Html:
    """A bar with its line of words above."""
    parts = [
        tag("text", bar.name, x="0", y=down(top + 14), class_="name"),
        tag("text", bar.total, x="100%", y=down(top + 14), text_anchor="end", class_="total"),
    ]
    start = 0.0
    for segment in bar.segments:
        width = segment.value / longest
        hint = tag("title", f"{bar.name}, {segment.name}: {segment.words}")
        box = {"x": across(start), "y": down(top + ABOVE), "width": across(width), "height": thick}
        parts.append(tag("rect", hint, class_=f"segment {segment.kind}", **box))
        if width >= LEAST_FOR_TEXT and thick >= THICK:
            at = {"x": across(start + width / 2), "y": down(top + ABOVE + thick / 2)}
            style = {"dy": "0.33em", "text_anchor": "middle", "class_": f"inside {segment.kind}"}
            parts.append(tag("text", segment.words, **style, **at))
        start += width
    return join(*parts)
