"""Horizontal bars on one scale from zero, with words above each, show stacked amounts or workers' timelines."""

from __future__ import annotations

from dataclasses import dataclass

from halowire.report.charts.plot import across, down, frame, labelled_ticks, tick_below, unit_of
from halowire.report.markup import Html, join, tag
from halowire.report.run_files import KINDS, Span, WorkerTimeline
from halowire.report.units import percent_text, seconds_text

THICK = 20
ABOVE = 22
BELOW = 9
"""Pixels of a bar, of the line of words above it, and of the gap below it."""
LEAST_FOR_TEXT = 0.17
"""The share of the width that a segment needs to have its value written inside."""
STRIP = 6
"""Height of the strip inside a box that is waiting for halo rows."""
LEAST_FOR_CHUNK = 0.022
"""The share of the width that a box needs to have the number of its chunk written inside."""
NARROW = 1 / 250
"""Boxes narrower than this share of the width have no edge, which would be as wide as the box."""
HAIR = 1 / 2000
"""Spans of a kind closer than this share of the epoch are drawn as one: no screen can show the gap."""


@dataclass(frozen=True)
class Segment:
    """A piece of a bar: the CSS class that colours it, its name, its value as a number and in words."""

    kind: str
    name: str
    value: float
    words: str


@dataclass(frozen=True)
class Bar:
    """One bar: its name, the words at its right, and its segments from left to right."""

    name: str
    total: object
    segments: list[Segment]


def bar_chart(title: str, description: str, bars: list[Bar], thick: int = THICK) -> Html:
    """The bars, one below the other, on one scale; thin bars have no words inside."""
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


def timeline_chart(title: str, description: str, rows: list[WorkerTimeline]) -> Html:
    """A line for every worker, one below the other, with a box for every span of one epoch, on one axis of time."""
    end = max(row.end for row in rows) or 1.0
    pitch = ABOVE + THICK + BELOW
    height = pitch * len(rows)
    lines = [_line(row, end, index * pitch) for index, row in enumerate(rows)]
    return frame(title, description, height, (4, 0, 22, 0), *_time_axis(end, height), *lines)


def merged(kind: str, row: WorkerTimeline, end: float) -> list[tuple[float, float]]:
    """(start, width) of a kind's spans as shares of ``end``; close spans become one, tiny spans are left out."""
    found: list[list[float]] = []
    for span in sorted((one for one in row.spans if one.kind == kind), key=lambda one: one.start):
        start, stop = span.start / end, span.end / end
        if found and start - found[-1][1] < HAIR:
            found[-1][1] = max(found[-1][1], stop)
        else:
            found.append([start, stop])
    return [(start, stop - start) for start, stop in found if stop - start >= HAIR]


def _bar(bar: Bar, longest: float, top: float, thick: int) -> Html:
    """A bar with its line of words above."""
    parts = [_words_above(bar.name, bar.total, top)]
    start = 0.0
    for segment in bar.segments:
        width = segment.value / longest
        hint = f"{bar.name}, {segment.name}: {segment.words}"
        parts.append(_box(start, width, top + ABOVE, thick, f"segment {segment.kind}", hint))
        if width >= LEAST_FOR_TEXT and thick >= THICK:
            parts.append(_inside(segment.words, start + width / 2, top + ABOVE + thick / 2, segment.kind))
        start += width
    return join(*parts)


def _line(row: WorkerTimeline, end: float, top: float) -> Html:
    """A worker's boxes, below its name and its bubble."""
    y = top + ABOVE
    parts: list[object] = [_words_above(row.name, f"bubble {percent_text(row.bubble)}", top)]
    parts += [_span(span, end, y, row.full_name) for span in row.spans if span.kind in ("forward", "backward", "wait")]
    parts += [_strip(kind, row, end, y) for kind in ("exchange", "transfer")]
    return join(*parts)


def _words_above(name: str, total: object, top: float) -> Html:
    """The line of words above a bar: its name at the left, its total at the right."""
    y = down(top + 14)
    return join(tag("text", name, x="0", y=y, class_="name"), tag("text", total, x="100%", y=y, text_anchor="end"))


def _box(start: float, width: float, y: float, height: float, style: str, hint: str | None = None) -> Html:
    """A box at ``start``, ``width`` wide (shares of the plot), with a hint that shows when one points at the box."""
    box = {"x": across(start), "y": down(y), "width": across(width), "height": height}
    return tag("rect", tag("title", hint) if hint else None, class_=style, **box)


def _inside(words: object, middle: float, y: float, kind: str) -> Html:
    """Words in the middle of a box."""
    style = {"dy": "0.33em", "text_anchor": "middle", "class_": f"inside {kind}"}
    return tag("text", words, **style, x=across(middle), y=down(y))


def _time_axis(end: float, height: float) -> list[Html]:
    """Ticks below the lines; the last tick has no words if they would hang over the edge."""
    factor, unit = unit_of("seconds", end)
    drawn = [tag("line", x1="0", x2="100%", y1=down(height), y2=down(height), class_="base")]
    for tick, label in labelled_ticks(0, end / factor, 5):
        place = tick * factor / end
        words = (f"{label} {unit}" if tick else "0") if place <= 0.93 else None
        anchor = "middle" if tick else "start"
        drawn.append(tick_below(place, height, words, y=down(height + 17), text_anchor=anchor))
    return drawn


def _span(span: Span, end: float, y: float, name: str) -> Html | None:
    """The box of work on a chunk, or of waiting for a chunk; None if the box is too short to be seen."""
    start, width = span.start / end, span.seconds / end
    if width < HAIR:
        return None
    hint = f"{name}: {span.words}, {seconds_text(span.seconds)} from {seconds_text(span.start)} on"
    drawn = _box(start, width, y, THICK, f"span {span.kind}{' thin' if width < NARROW else ''}", hint)
    if span.kind == "wait" or width < LEAST_FOR_CHUNK or span.chunk < 0:
        return drawn
    return join(drawn, _inside(span.chunk, start + width / 2, y + (THICK - STRIP) / 2 + 1, span.kind))


def _strip(kind: str, row: WorkerTimeline, end: float, y: float) -> Html | None:
    """Boxes of the short spans: waits for halo rows along the lower edge of other boxes, transfers at full height."""
    height = STRIP if kind == "exchange" else THICK
    style = f"span thin {kind}"
    boxes = [_box(start, width, y + THICK - height, height, style) for start, width in merged(kind, row, end)]
    return tag("g", tag("title", KINDS[kind]), *boxes) if boxes else None
