"""What the user wrote: the line of the script in which an operation that is refused was asked for."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path

HERE = str(Path(__file__).parents[1])
LIBRARIES = (HERE, "/torch/", "/torch_geometric/", "<frozen", "<string>")
"""Places of code that the user did not write."""
OPERATORS = {
    "__getitem__": "edge_index[...]", "__setitem__": "edge_index[...] = ...", "add": "edge_index + ...",
    "__radd__": "... + edge_index", "sub": "edge_index - ...", "rsub": "... - edge_index", "mul": "edge_index * ...",
    "floordivide": "edge_index // ...", "remainder": "edge_index % ...", "lt": "edge_index < ...",
    "gt": "edge_index > ...", "le": "edge_index <= ...", "ge": "edge_index >= ...", "eq": "edge_index == ...",
    "ne": "edge_index != ...", "__contains__": "... in edge_index", "__bool__": "bool(edge_index)",
    "add_": "edge_index += ...", "sub_": "edge_index -= ...", "__and__": "edge_index & ...",
}  # fmt: skip
"""How torch's names for operators are written."""


def written(name: str) -> str:
    """``name``, an operation on edges, as the user writes it, with the line of the script where it is known."""
    if name.startswith("."):
        words = f"edge_index{name}"
    else:
        words = OPERATORS.get(name) or f"{name.strip('_')}(edge_index, ...)"
    return f"`{words}`{_line()}"


def _line() -> str:
    """The innermost line of the script or of the user's modules, in brackets; empty where there is none."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not any(place in name for place in LIBRARIES):
            text = linecache.getline(name, frame.f_lineno).strip()
            return f" ({Path(name).name}, line {frame.f_lineno}{f': {text}' if text else ''})"
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return ""
