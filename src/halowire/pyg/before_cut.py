"""What PyG does with a whole graph, its transforms, loaders and conversions, is refused where it is given a part."""

from __future__ import annotations

import sys
from types import FrameType

from halowire.errors import InputError

PYG = "/torch_geometric/"
PLACES = tuple(f"{PYG}{place}/" for place in ("transforms", "loader", "sampler", "utils", "data"))
"""Where PyG has code that takes a whole graph."""
ASKING = ("__getattribute__", "__getattr__", "__delattr__", "__class__", "__instancecheck__")
"""The methods through which a part is asked."""


def refuse_in_pyg() -> None:
    """Refuse what asks a part for something that it does not have, if PyG's code for whole graphs asks."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name in ASKING:
        frame = frame.f_back
    if frame is None or not any(place in frame.f_code.co_filename for place in PLACES):
        return
    asking = frame
    while frame is not None and PYG in frame.f_code.co_filename:
        asking = asking if frame.f_code.co_name == "wrapper" else frame
        frame = frame.f_back
    asked = asking.f_locals.get("self")
    name = asking.f_code.co_name if asked is None else type(asked).__name__
    raise InputError(
        f"{name} of PyG takes a whole graph, and this is one worker's part; use it before halowire.shard cuts the "
        "graph, and leave loaders of batches out: every step is over the whole graph"
    )


class AsksFirst:
    """A part of a graph, which is no ``Data`` of PyG and says so where PyG wants to know."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class, as ``isinstance`` asks for it."""
        refuse_in_pyg()
        return type(self)
