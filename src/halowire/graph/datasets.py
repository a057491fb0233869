"""Data sets by name: the built-in graph of Debian's packages, and data sets of PyG and OGB whose files are on disk.

Nothing is ever downloaded.
"""

from __future__ import annotations

import importlib
import os
from importlib import resources
from pathlib import Path
from typing import Any

from halowire.errors import InputError, in_one_line
from halowire.graph.graph import Graph
from halowire.graph.npz import read_npz
from halowire.graph.ogb import is_ogb_folder, read_ogb
from halowire.graph.pyg_data import from_pyg

DATASETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "planetoid": ("Planetoid", ("Cora", "CiteSeer", "PubMed")),
    "amazon": ("Amazon", ("Computers", "Photo")),
    "coauthor": ("Coauthor", ("CS", "Physics")),
    "reddit": ("Reddit", ()),
    "flickr": ("Flickr", ()),
    "yelp": ("Yelp", ()),
}
"""The class in ``torch_geometric.datasets`` and the names of its graphs."""
OGB = "ogb"
ROOT = "data"
DEBIAN = "data/debian.npz"


class _Missing(Exception):  # noqa: N818
    """Neither the processed nor the raw files of a data set are there."""


def is_dataset(spec: str) -> bool:
    """Whether ``spec`` names a data set, such as ``planetoid:Cora``, ``reddit`` or ``ogb:ogbn-arxiv``."""
    kind, colon, _ = spec.partition(":")
    return kind.lower() == OGB if colon and kind.lower() not in DATASETS else kind.lower() in DATASETS


def dataset_name(spec: str) -> str:
    """The name of the graph of ``spec`` in reports."""
    kind, _, name = spec.partition(":")
    return name or kind


def read_dataset(spec: str, root: Path | str | None = None, regression: bool = False) -> Graph:
    """Read the data set that ``spec`` names from ``root`` (by default ``data``), or its folder named after the class.

    PyG's classes read ``processed/data.pt``, or make it of the files in ``raw/``; both may hold pickles, so name only
    folders that you trust. OGB's raw folders (``ogb:ogbn-arxiv`` in ``ogbn_arxiv``) are read by halowire itself.
    """
    folder = Path(root or ROOT)
    kind, _, name = spec.partition(":")
    if kind.lower() == OGB:
        return _read_ogb(folder, name, regression)
    title, names = DATASETS[kind.lower()]
    chosen = {known.lower(): known for known in names}.get(name.lower())
    if bool(names) != bool(name) or (names and chosen is None):
        expected = " or ".join(f"{kind.lower()}:{known}" for known in names) or kind.lower()
        raise InputError(f"{spec!r} names no data set that is known; expected {expected}")
    return from_pyg(_load(title, chosen, folder), chosen or title, regression=regression)


def _load(title: str, name: str | None, folder: Path) -> Any:
    looked: list[str] = []
    for place in (folder, folder / title):
        try:
            return _offline(title)(str(place), *([name] if name else []))[0]
        except _Missing as missing:
            looked.append(str(missing))
        except InputError:
            raise
        except ModuleNotFoundError as error:
            raise InputError(
                f"the raw files of {name or title} are read with {error.name}, which is not installed: pip install "
                "'halowire[pyg]'"
            ) from error
        except Exception as error:
            raise InputError(
                f"the files of {name or title} in {place} cannot be read ({in_one_line(error)}); get them again"
            ) from error
    raise InputError(
        f"{name or title} is not on disk: there is neither {' nor '.join(looked)}; halowire downloads nothing: get the "
        f"files with torch_geometric.datasets.{title}, or say where they are: --graph.root, root= in load"
    )


def _offline(title: str) -> type[Any]:
    """PyG's class, changed so that it looks for files instead of downloading them."""
    try:
        known = getattr(importlib.import_module("torch_geometric.datasets"), title)
    except ImportError:
        raise InputError("data sets by name are read by torch-geometric: pip install 'halowire[pyg]'") from None

    def look(self: Any) -> None:
        there = [all(map(os.path.exists, paths)) for paths in (self.processed_paths, self.raw_paths)]
        if not any(there):
            raise _Missing(f"{self.processed_paths[0]} nor {self.raw_dir}/{Path(self.raw_paths[0]).name}")

    def refuse(self: Any) -> None:
        raise _Missing(self.raw_dir)

    return type(title, (known,), {"_download": look, "download": refuse})


def _read_ogb(folder: Path, name: str, regression: bool) -> Graph:
    if not name:
        raise InputError("'ogb' names no data set; expected a name such as ogb:ogbn-arxiv")
    places = [folder / spelling for spelling in (name.replace("-", "_"), name)]
    for place in places:
        if is_ogb_folder(place):
            return read_ogb(place, regression)
    looked = " nor ".join(str(place / "raw" / "edge.csv.gz") for place in places)
    raise InputError(
        f"{name} is not on disk: there is neither {looked}; halowire downloads nothing: unpack OGB's archive there, or "
        "say where it is: --graph.root, root= in load"
    )


def debian() -> Graph:
    """The built-in real graph: every package of a Debian 12 archive, linked by the relations that packages declare.

    Nodes are packages, edges their relations (both ways), ``x`` words of the descriptions, ``y`` archive sections.

    ``tools/build_debian.py`` makes the shipped file; its ``meta`` holds the counts.
    """
    file = resources.files("halowire.graph").joinpath(DEBIAN)
    if not file.is_file():
        raise InputError("the built-in graph 'debian' is not in this installation; install halowire again")
    with file.open("rb") as stream:
        return read_npz(stream, "debian")
