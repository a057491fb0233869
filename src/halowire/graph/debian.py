"""The built-in real graph: every package of a Debian 12 archive, linked by the relations the packages declare."""

from __future__ import annotations

from importlib import resources
from typing import Any

from halowire.errors import InputError
from halowire.graph.graph import Graph
from halowire.graph.npz import read_meta, read_npz

FILE = "data/debian.npz"


def debian() -> Graph:
    """Nodes are packages, edges their relations (both ways), ``x`` words of the descriptions, ``y`` archive sections.

    ``tools/build_debian.py`` makes the shipped file; `debian_meta` says how many of what it holds.
    """
    file = resources.files("halowire.graph").joinpath(FILE)
    if not file.is_file():
        raise InputError("the built-in graph 'debian' is not in this installation; install halowire again")
    with file.open("rb") as stream:
        return read_npz(stream, "debian")


def debian_meta() -> dict[str, Any]:
    """Source, counts, class names and homophily of the built-in graph."""
    with resources.files("halowire.graph").joinpath(FILE).open("rb") as stream:
        return read_meta(stream)
