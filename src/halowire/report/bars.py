"""Horizontal stacked bars: a name and a total above each, values inside the segments that have room."""

from __future__ import annotations

from dataclasses import dataclass

from halowire.report.markup import Html, join, tag
from halowire.report.svg import across, down, frame

THICK = 20
ABOVE = 22
BELOW = 9
LEAST_FOR_TEXT = 0.17


@dataclass(frozen=True)
class Bar:
    """One bar: its name, what stands at its right, and its segments as (class, name, value, words)."""

    name: str
    total: object
    segments: list[tuple[str, str, float, str]]


def bar_chart(title: str, description: str, bars: list[Bar], thick: int = THICK) -> Html:
    """The bars on one common scale that starts at zero; thin ones have no words inside."""
    longest = max((sum(value for _, _, value, _ in bar.segments) for bar in bars), default=0.0) or 1.0
    row = ABOVE + thick + BELOW
    drawn = [one_bar(bar, longest, index * row, thick) for index, bar in enumerate(bars)]
    return frame(title, description, row * len(bars) - BELOW, (4, 0, 4, 0), *drawn)


def one_bar(bar: Bar, longest: float, top: float, thick: int) -> Html:
    """A bar with its line of words above."""
    parts = [
        tag("text", bar.name, x="0", y=down(top + 14), class_="name"),
        tag("text", bar.total, x="100%", y=down(top + 14), text_anchor="end", class_="total"),
    ]
    start = 0.0
    for kind, name, value, words in bar.segments:
        width = value / longest
        hint = tag("title", f"{bar.name}, {name}: {words}")
        box = {"x": across(start), "y": down(top + ABOVE), "width": across(width), "height": thick}
        parts.append(tag("rect", hint, class_=f"segment {kind}", **box))
        if width >= LEAST_FOR_TEXT and thick >= THICK:
            at = {"x": across(start + width / 2), "y": down(top + ABOVE + thick / 2)}
            parts.append(tag("text", words, dy="0.33em", text_anchor="middle", class_=f"inside {kind}", **at))
        start += width
    return join(*parts)


def key(entries: list[tuple[str, str, str]]) -> Html:
    """The key of the segments: (class, name, words) as swatches in a line that wraps."""
    return tag(
        "ul",
        *(tag("li", tag("i", class_=f"swatch {kind}"), name, " ", tag("b", words)) for kind, name, words in entries),
        class_="key",
    )
