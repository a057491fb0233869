"""What the user wrote: the line of the script in which an operation that is refused was asked for."""

from __future__ import annotations

import linecache
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from torch import nn

HERE = str(Path(__file__).parents[1])
PYTHON = sysconfig.get_path("stdlib")
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


@dataclass
class Asked:
    """Where an operation was asked for: ``function`` and ``layer`` of PyG, and the ``line`` of the user's code."""

    function: str = ""
    layer: str = ""
    line: str = ""

    @staticmethod
    def here() -> Asked:
        """The innermost line of the script or of the user's modules, and what it called of PyG."""
        asked = Asked()
        for frame in _frames():
            name, called = frame.f_code.co_filename, frame.f_code.co_name
            if "/torch_geometric/utils/" in name and not asked.layer and not called.startswith("<"):
                asked.function = called
            elif "/torch_geometric/nn/" in name and not asked.layer:
                module = frame.f_locals.get("self")
                asked.layer = type(module).__name__ if isinstance(module, nn.Module) else ""
            elif _is_users(name):
                text = linecache.getline(name, frame.f_lineno).strip()
                asked.line = f" ({Path(name).name}, line {frame.f_lineno}{f': {text}' if text else ''})"
                break
        return asked

    def words(self, name: str) -> str:
        """``name``, an operation on edges, as the user writes it, or the function of PyG that needs it."""
        if self.function:
            words = f"{self.function}(edge_index, ...)"
        elif name.startswith("."):
            words = f"edge_index{name}"
        else:
            words = OPERATORS.get(name) or f"{name.strip('_')}(edge_index, ...)"
        return f"`{words}`{f' of {self.layer}' if self.layer else ''}{self.line}"


def in_a_model() -> bool:
    """Whether a module, or a method of a distributed model, is being called."""
    return any(
        frame.f_code.co_name == "_call_impl" or frame.f_code.co_filename.endswith("/halowire/pyg/entries.py")
        for frame in _frames()
    )


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_users(name: str) -> bool:
    own_python = name.startswith(PYTHON) and "-packages" not in name
    return not own_python and not any(place in name for place in LIBRARIES)
