"""Horizontal bars on one scale that starts at zero, with words above each: stacked amounts, or a worker's timeline."""

from __future__ import annotations

from dataclasses import dataclass

from halowire.report.charts.axes import tick_text, ticks_between, unit_of
from halowire.report.charts.plot import across, down, frame
from halowire.report.markup import Html, join, tag
from halowire.report.run_timelines import KINDS, Span, WorkerTimeline
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
"""Narrower boxes have no edge: it would be as wide as they are."""
HAIR = 1 / 2000
"""Spans of a kind that lie closer than this share of the epoch are drawn as one: no screen can part them."""


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
    """(start, width) of a kind's spans as shares of ``end``; close spans become one, what stays tiny is left out."""
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


def _time_axis(end: float, height: float) -> list[Html]:
    """Ticks below the lines; the last one is left out where it would hang over the edge."""
    factor, unit = unit_of("seconds", end)
    ticks = ticks_between(0, end / factor, 5)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
    drawn = [tag("line", x1="0", x2="100%", y1=down(height), y2=down(height), class_="base")]
    for tick in ticks:
        place = tick * factor / end
        x = across(place)
        drawn.append(tag("line", x1=x, x2=x, y1=down(height), y2=down(height + 4), class_="tick"))
        if place <= 0.93:
            words = f"{tick_text(tick, step)} {unit}" if tick else "0"
            anchor = "start" if not tick else "middle"
            drawn.append(tag("text", words, x=x, y=down(height + 17), text_anchor=anchor))
    return drawn


def _line(row: WorkerTimeline, end: float, top: float) -> Html:
    """A worker's boxes, below its name and its bubble."""
    y = top + ABOVE
    parts: list[object] = [
        tag("text", row.name, x="0", y=down(top + 14), class_="name"),
        tag("text", f"bubble {percent_text(row.bubble)}", x="100%", y=down(top + 14), text_anchor="end"),
    ]
    parts += [_box(span, end, y, row.full_name) for span in row.spans if span.kind in ("forward", "backward", "wait")]
    parts += [_strip(kind, row, end, y) for kind in ("exchange", "transfer")]
    return join(*parts)


def _box(span: Span, end: float, y: float, name: str) -> Html | None:
    """The box of a chunk in work, or of the wait for one; None where it is too short to be seen."""
    width = span.seconds / end
    if width < HAIR:
        return None
    hint = tag("title", f"{name}: {span.words}, {seconds_text(span.seconds)} from {seconds_text(span.start)} on")
    place = {"x": across(span.start / end), "y": down(y), "width": across(width), "height": THICK}
    thin = " thin" if width < NARROW else ""
    drawn = tag("rect", hint, class_=f"span {span.kind}{thin}", **place)
    if span.kind == "wait" or width < LEAST_FOR_CHUNK or span.chunk < 0:
        return drawn
    at = {"x": across(span.start / end + width / 2), "y": down(y + (THICK - STRIP) / 2 + 1), "dy": "0.33em"}
    return join(drawn, tag("text", span.chunk, text_anchor="middle", class_=f"inside {span.kind}", **at))


def _strip(kind: str, row: WorkerTimeline, end: float, y: float) -> Html | None:
    """The short spans: waits for halo rows along the lower edge of the boxes, transfers over their whole height."""
    height = STRIP if kind == "exchange" else THICK
    place = {"y": down(y + THICK - height)}
    boxes = [
        tag("rect", x=across(start), **place, width=across(width), height=height, class_=f"span thin {kind}")
        for start, width in merged(kind, row, end)
    ]
    return tag("g", tag("title", KINDS[kind]), *boxes) if boxes else None
