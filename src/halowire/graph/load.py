"""One function for every graph: from a built-in name, a file, a folder, a synthetic description, or an object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from halowire.errors import InputError, in_one_line
from halowire.graph.checks import check
from halowire.graph.datasets import debian, is_dataset, read_dataset
from halowire.graph.edge_list import read_edge_list
from halowire.graph.graph import Graph
from halowire.graph.npz import read_npz
from halowire.graph.ogb import is_ogb_folder, read_ogb
from halowire.graph.pyg_data import from_pyg
from halowire.graph.synthetic import EXAMPLES, is_synthetic, synthetic
from halowire.inputs import kind_of, read_json

TEXT = (".csv", ".tsv", ".txt")
KNOWN = (
    "the built-in graph 'debian', a file (.npz, .csv, .tsv, .txt, also .gz), a folder in OGB's raw layout, "
    f"a data set such as planetoid:Cora, or a synthetic graph such as {' or '.join(EXAMPLES.values())}"
)


def load(
    spec: str | Path | Graph | Any,
    undirected: bool = False,
    *,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    regression: bool = False,
    root: str | Path | None = None,
) -> Graph:
    """Get a graph and check it.

    Example:
        >>> graph = halowire.load("debian")
        >>> graph = halowire.load("edges.csv", features="features.npy", labels="labels.npy")

    Args:
        spec: a built-in name (``debian``); a file (``.npz``, or an edge list ``.csv``, ``.tsv``, ``.txt``, also
            ``.gz``); a folder in OGB's raw layout; a synthetic graph (``rmat:nodes=...,edges=...`` or ``sbm:...``);
            a data set on disk (``planetoid:Cora``, ``amazon:Photo``, ``coauthor:CS``, ``reddit``, ``flickr``, ``yelp``,
            ``ogb:ogbn-arxiv``); a PyG ``Data`` or ``HeteroData``; or a `Graph`.
        undirected: store every edge in both directions, once.
        features: file with the features of an edge list's nodes.
        labels: file with the labels of an edge list's nodes.
        regression: the labels are values to learn, not classes.
        root: the folder of data sets that are given by name; by default ``data``.
    """
    companions = {"features": features, "labels": labels}
    given = {key: Path(path) for key, path in companions.items() if path is not None}
    named = isinstance(spec, str) and is_dataset(spec)
    if root is not None and not named:
        raise InputError(f"root says where data sets are that are given by name, which {spec!r} is not; leave it out")
    found = read_dataset(str(spec), root, regression) if named and not given else _find(spec, given, regression)
    graph = check(found.as_regression() if regression else found)
    return graph.undirected() if undirected else graph


def _find(spec: str | Path | Graph | Any, companions: dict[str, Path], regression: bool) -> Graph:
    path = Path(spec) if isinstance(spec, str | Path) else None
    if path is not None and not is_synthetic(str(spec)) and path.is_file() and _is_text(path):
        return read_edge_list(path, **companions, regression=regression)
    if companions:
        raise InputError(f"{' and '.join(companions)} belong to an edge list, but {spec!r} is none; leave them out")
    if isinstance(spec, Graph):
        return spec
    if path is None:
        return from_pyg(spec, regression=regression)
    if str(spec) == "debian":
        return debian()
    if is_synthetic(str(spec)):
        return synthetic(str(spec))
    return _read(path, regression)


def _read(path: Path, regression: bool) -> Graph:
    if path.is_dir():
        if is_ogb_folder(path):
            return read_ogb(path, regression)
        raise InputError(f"the folder {path} has no edge.csv.gz, expected OGB's raw layout{_hint(path)}")
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is {kind_of(path)}, from which no graph can be read; expected {KNOWN}")
    if not path.is_file():
        raise InputError(f"{str(path)!r} is neither a file nor a known graph, expected {KNOWN}")
    if path.suffix == ".npz":
        return read_npz(path, path.stem, regression)
    raise InputError(f"the file {path} is of no known kind, expected {KNOWN}")


def _hint(folder: Path) -> str:
    """What a folder without a graph may be: shards, whose manifest can perhaps not be read."""
    manifest = folder / "manifest.json"
    if not manifest.exists():
        return ""
    try:
        read_json(manifest)
    except (OSError, ValueError) as error:
        return f"; its manifest.json cannot be read ({in_one_line(error)}): partition the graph again"
    return "; it holds shards: pass it to train or inspect"


def _is_text(path: Path) -> bool:
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    return bool(suffixes) and (suffixes[-1] in TEXT or (suffixes[-1] == ".gz" and suffixes[0] in TEXT))
