"""The plot: seconds per epoch of every recipe on a logarithmic axis, beside what the computation alone takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bench.slow_network.rows import speed_rows
from halowire.report import Html, join, tag

WIDTH, LEFT, RIGHT, ROW, HEAD, FOOT = 720, 90, 150, 20, 46, 40
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.title{font-size:14px;font-weight:600}.grid{stroke:#ddd}"
    ".null{stroke:#00704f;stroke-dasharray:3 3}.limit{fill:#00704f}.bar{stroke:#c9d6e2;stroke-width:6}"
    ".dot{fill:#0b62a4}.soft{fill:#666}"
)


def svg(result: Mapping[str, Any]) -> str:
    """A self-contained SVG with one panel per case."""
    panels, top = [], 0.0
    for name, case in result["cases"].items():
        if rows := speed_rows(case):
            panels.append(_panel(name, case, rows, top))
            top += HEAD + ROW * len(rows) + FOOT
    drawing = tag(
        "svg",
        tag("title", "Seconds per epoch on a slow link"),
        tag("style", Html(STYLE)),
        tag("rect", width=WIDTH, height=round(top), fill="#fff"),
        *panels,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {round(top)}",
        width=WIDTH,
        height=round(top),
        role="img",
    )
    return f"{drawing}\n"


def _panel(name: str, case: Mapping[str, Any], rows: list[dict[str, Any]], top: float) -> Html:
    null = case["nulls"]["exact"]["seconds"]
    values = [row["seconds"] for row in rows] + [null]
    low, high = math.log10(min(values)) - 0.1, math.log10(max(values)) + 0.05

    def x(value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(value) - low) / (high - low), 1)

    bottom = top + HEAD + ROW * len(rows)
    parts = [tag("text", f"{name}, {case['rate'] / 1e6:g} mbit/s", x=8, y=top + 18, class_="title")]
    for tick in _ticks(10**low, 10**high):
        parts.append(tag("line", x1=x(tick), x2=x(tick), y1=top + HEAD - 8, y2=bottom, class_="grid"))
        parts.append(tag("text", f"{tick:g} s", x=x(tick), y=bottom + 15, text_anchor="middle", class_="soft"))
    parts.append(tag("line", x1=x(null), x2=x(null), y1=top + HEAD - 12, y2=bottom, class_="null"))
    parts.append(tag("text", f"null transport {null:.2f} s", x=x(null) + 4, y=top + HEAD - 10, class_="limit"))
    for index, row in enumerate(rows):
        y, at = top + HEAD + ROW * (index + 0.5), x(row["seconds"])
        words = f"{row['seconds']:.2f} s, {row['speed_up']:.1f} times as fast"
        parts.append(tag("text", row["recipe"], x=LEFT - 8, y=y + 4, text_anchor="end"))
        parts.append(tag("line", x1=LEFT, x2=at, y1=y, y2=y, class_="bar"))
        parts.append(tag("circle", cx=at, cy=y, r=4.5, class_="dot"))
        parts.append(tag("text", words, x=at + 9, y=y + 4, class_="soft"))
    return join(*parts)


def _ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**power for power in powers for step in (1, 2, 5) if low <= step * 10.0**power <= high]
