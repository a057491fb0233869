"""The report's section on the pipeline: a timeline of one epoch for every worker, and how much of it was bubble."""

from __future__ import annotations

from halowire.report.bars import key
from halowire.report.figures import Named, figure
from halowire.report.markup import Html, join, tag
from halowire.report.spans import KINDS, Row, Span, mean_bubble, timelines
from halowire.report.svg import across, down, frame
from halowire.report.tables import fold, table
from halowire.report.ticks import tick_text, ticks_between, unit_of
from halowire.report.units import NOTHING, percent_text, seconds_text

MOST_ROWS = 16
ABOVE, THICK, BELOW = 22, 20, 9
STRIP = 6
"""Height of the strip inside a box that is waiting for halo rows."""
LEAST_FOR_TEXT = 0.022
NARROW = 1 / 250
"""Narrower boxes have no edge: it would be as wide as they are."""
FORMULA = "(S\u22121)/(C+S\u22121)"
"""With minus signs, after which no line breaks."""
HAIR = 1 / 2000
"""Spans of a kind that lie closer than this share of the epoch are drawn as one: no screen can part them."""
TITLE = "One epoch in the pipeline"


def pipeline_section(runs: list[Named]) -> Html | None:
    """The figure of one run; None for several runs, and where no timeline was recorded."""
    rows = timelines(runs[0].run) if len(runs) == 1 else []
    if not rows:
        return None
    says = sentence(rows)
    drawing = tag("div", key(shares(rows)), timeline_chart(rows[:MOST_ROWS], says), class_="timeline")
    return tag("div", figure(TITLE, says, drawing, data(rows), wide=True), class_="figures")


def sentence(rows: list[Row]) -> str:
    """What to see, with the bubble next to the one that arithmetic gives."""
    shown = "A line is a worker" if len(rows) <= MOST_ROWS else f"A line is a worker, {MOST_ROWS} of {len(rows)}"
    stages = 1 + max(row.stage for row in rows)
    words = (
        f"{shown}, a box a chunk in its stage: epoch {rows[0].epoch}, which all workers began together. The bubble, "
        "time in which a worker has no chunk in work until all workers are done, is "
        f"{percent_text(mean_bubble(rows))} in the mean"
    )
    if stages == 1:
        words += "; one stage has none by itself."
    else:
        words += f"; {FORMULA}, equal stages and chunks without any transfer, is {percent_text(rows[0].ideal)}."
        words += " Transfer is coding and handing over; what it leaves to the wire shows as waiting."
    inside = any(row.seconds("exchange") for row in rows)
    return f"{words} Strips inside the boxes are waits for halo rows." if inside else words


def shares(rows: list[Row]) -> list[tuple[str, str, str]]:
    """The key: every kind with its share of the workers' time."""
    total = sum(row.end for row in rows)
    found = {kind: sum(row.seconds(kind) for row in rows) for kind in KINDS}
    return [(kind, KINDS[kind], percent_text(spent / total)) for kind, spent in found.items() if spent > 0]


def timeline_chart(rows: list[Row], description: str) -> Html:
    """The lines on one common axis of time."""
    end = max(row.end for row in rows) or 1.0
    pitch = ABOVE + THICK + BELOW
    lines = [one_line(row, end, number * pitch) for number, row in enumerate(rows)]
    return frame(TITLE, description, pitch * len(rows), (4, 0, 22, 0), *axis(end, pitch * len(rows)), *lines)


def axis(end: float, height: float) -> list[Html]:
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


def one_line(row: Row, end: float, top: float) -> Html:
    """A worker's boxes, below its name and its bubble."""
    y = top + ABOVE
    parts: list[object] = [
        tag("text", row.name, x="0", y=down(top + 14), class_="name"),
        tag("text", f"bubble {percent_text(row.bubble)}", x="100%", y=down(top + 14), text_anchor="end"),
    ]
    parts += [box(span, end, y, row.full_name) for span in row.spans if span.kind in ("forward", "backward", "wait")]
    parts += [strip(kind, row, end, y) for kind in ("exchange", "transfer")]
    return join(*parts)


def box(span: Span, end: float, y: float, name: str) -> Html | None:
    """A chunk in work, or the wait for one; None where it is too short to be seen."""
    width = span.seconds / end
    if width < HAIR:
        return None
    hint = tag("title", f"{name}: {span.words}, {seconds_text(span.seconds)} from {seconds_text(span.start)} on")
    place = {"x": across(span.start / end), "y": down(y), "width": across(width), "height": THICK}
    thin = " thin" if width < NARROW else ""
    drawn = tag("rect", hint, class_=f"span {span.kind}{thin}", **place)
    if span.kind == "wait" or width < LEAST_FOR_TEXT or span.chunk < 0:
        return drawn
    at = {"x": across(span.start / end + width / 2), "y": down(y + (THICK - STRIP) / 2 + 1), "dy": "0.33em"}
    return join(drawn, tag("text", span.chunk, text_anchor="middle", class_=f"inside {span.kind}", **at))


def strip(kind: str, row: Row, end: float, y: float) -> Html | None:
    """Short spans: waiting for halo rows along the lower edge of the boxes, transfers over their whole height."""
    height = STRIP if kind == "exchange" else THICK
    boxes = [
        tag("rect", x=across(start), y=down(y + THICK - height), width=across(width), height=height,
            class_=f"span thin {kind}")
        for start, width in merged(kind, row, end)
    ]  # fmt: skip
    return tag("g", tag("title", KINDS[kind]), *boxes) if boxes else None


def merged(kind: str, row: Row, end: float) -> list[tuple[float, float]]:
    """(start, width) of a kind's spans as shares of ``end``, close ones as one; what stays below a hair is left out."""
    found: list[list[float]] = []
    for span in sorted((one for one in row.spans if one.kind == kind), key=lambda one: one.start):
        start, stop = span.start / end, span.end / end
        if found and start - found[-1][1] < HAIR:
            found[-1][1] = max(found[-1][1], stop)
        else:
            found.append([start, stop])
    return [(start, stop - start) for start, stop in found if stop - start >= HAIR]


def data(rows: list[Row]) -> Html:
    """The seconds of every kind, and the bubbles."""
    kinds = [kind for kind in KINDS if any(row.seconds(kind) for row in rows)]
    head = ["worker", "stage", "part", "layers", *(KINDS[kind] for kind in kinds), "bubble", FORMULA]
    cells = [
        [str(row.rank), str(row.stage), str(row.part), row.layers or NOTHING,
         *(seconds_text(row.seconds(kind)) for kind in kinds), percent_text(row.bubble), percent_text(row.ideal)]
        for row in rows
    ]  # fmt: skip
    return fold("Data", table(head, cells, f"{TITLE}: data"))
