"""Writes the dark twin of every drawing in docs/_static: the same shapes in other colours.

Run it after a change of a drawing, as ``python tools/dark_drawings.py``; a test compares the twins.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "_static"
DARK = {
    "#ffffff": "#0d1117", "#1f2328": "#e6edf3", "#59636e": "#9198a1", "#f6f8fa": "#151b23", "#d1d9e0": "#3d444d",
    "#8c959f": "#656c76", "#0969da": "#58a6ff", "#bc4c00": "#f0883e", "#1a7f37": "#3fb950", "#8250df": "#bc8cff",
    "#ddf4ff": "#12283f", "#fff1e5": "#33210f", "#dafbe1": "#10301c", "#fbefff": "#271c40",
}  # fmt: skip
"""The dark colour for every colour of the light drawings."""


def darkened(drawing: str) -> str:
    """The text of a light SVG ``drawing`` in dark colours."""
    return re.sub(r"#[0-9a-f]{6}\b", lambda colour: DARK[colour.group()], drawing)


def main() -> None:
    """Write all dark drawings."""
    for light in sorted(FOLDER.glob("*-light.svg")):
        dark = light.with_name(light.name.replace("-light.svg", "-dark.svg"))
        dark.write_text(darkened(light.read_text()))


if __name__ == "__main__":
    main()
