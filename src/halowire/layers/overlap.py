"""How a layer's exchange is hidden behind computation; a model says it for each of its layers, in these words."""

from __future__ import annotations

BOUNDARY_FIRST = "boundary first"
"""The layer before launches it, once its boundary rows are done: its interior, and this layer's, hide the flight."""


NOT_HIDDEN = "not hidden"
"""The layer waits for its rows, and nothing is computed while they fly."""


def plain_overlap(reason: str) -> str:
    """The layer launches it itself, when all of its input is there: only its own inner product hides the flight."""
    return f"plain overlap: {reason}"
