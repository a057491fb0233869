"""The plot of the README: seconds per epoch of every recipe, computing and waiting, from `result.json`.

``python -m bench.slow_network.headline`` writes docs/_static/slow_network-light.svg; ``python tools/dark_drawings.py``
then makes the dark one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.slow_network.rows import speed_rows

CASE = "synthetic sage"
HERE = Path(__file__).parent
OUT = HERE.parents[1] / "docs" / "_static" / "slow_network-light.svg"
WIDTH, LEFT, TOP, ROW, SCALE = 960, 110, 92, 30, 9.6
"""Sizes in pixels; ``SCALE`` is pixels per second."""
STYLE = """
    text { font: 14px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
    .title { font-size: 16px; font-weight: 600 }
    .soft { fill: #59636e; stroke: #ffffff; stroke-width: 4; paint-order: stroke }
    .end { text-anchor: end }
    .mid { text-anchor: middle }
    .page { fill: #ffffff }
    .thin { stroke: #d1d9e0; fill: none }
    .blue { fill: #0969da }
    .pale-orange { fill: #fff1e5; stroke: #bc4c00 }
    .pale-purple { fill: #fbefff; stroke: #8250df }
"""


def svg(case: Mapping[str, Any]) -> str:
    """A bar for every recipe of ``case``, the slowest first."""
    rows = sorted(speed_rows(case), key=lambda row: -row["seconds"])
    bottom = TOP + ROW * len(rows)
    title = f"Seconds per epoch of every recipe, two hosts joined by {case['rate'] / 1e6:.1f} mbit/s"
    parts = [_text(20, 32, title, "title"), *_legend()]
    for tick in range(0, 71, 10):
        x = LEFT + SCALE * tick
        parts.append(f'<path d="M{x:g} {TOP - 6}V{bottom}" class="thin"/>')
        parts.append(_text(x, bottom + 20, f"{tick} s", "soft mid"))
    for place, row in enumerate(rows):
        parts += _bar(row, TOP + ROW * place)
    height = bottom + 36
    body = "\n".join(f"  {part}" for part in parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-labelledby="t">\n  <title id="t">{title}</title>\n  <style>{STYLE}  </style>\n'
        f'  <rect class="page" width="{WIDTH}" height="{height}" rx="8"/>\n{body}\n</svg>\n'
    )


def _legend() -> list[str]:
    found = []
    for x, name, words in (
        (LEFT, "blue", "computing"),
        (LEFT + 120, "pale-orange", "waiting for the wire"),
        (LEFT + 310, "pale-purple", "computed from two fixed ratios, not split"),
    ):
        found += [_rect(x, 52, 16, 16, name), _text(x + 24, 65, words, "soft")]
    return found


def _bar(row: Mapping[str, Any], y: float) -> list[str]:
    """The name, the time computing and waiting (VARCO's is one bar: it was not measured by itself), and the words."""
    length, wait = SCALE * row["seconds"], SCALE * (row["waiting"] or 0.0)
    bars = [_rect(LEFT, y, length, ROW - 8, "pale-purple")]
    if row["waiting"] is not None:
        bars = [_rect(LEFT + length - wait, y, wait, ROW - 8, "pale-orange")] if wait >= 1 else []
        bars.append(_rect(LEFT, y, length - wait, ROW - 8, "blue"))
    words = f"{row['seconds']:.2f} s" + (f", {row['speed_up']:.1f} times as fast" if row["speed_up"] >= 1.1 else "")
    return [_text(LEFT - 12, y + 16, row["recipe"], "end"), *bars, _text(LEFT + length + 8, y + 16, words, "soft")]


def _rect(x: float, y: float, width: float, height: float, name: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}" rx="2" class="{name}"/>'


def _text(x: float, y: float, words: str, name: str) -> str:
    return f'<text x="{x:.1f}" y="{y:g}" class="{name}">{words}</text>'


if __name__ == "__main__":
    OUT.write_text(svg(json.loads((HERE / "result.json").read_text())["cases"][CASE]))
