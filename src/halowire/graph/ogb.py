"""Graphs from OGB's raw folder layout: gzipped CSV files of edges, features, labels and splits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from halowire.errors import InputError
from halowire.graph.graph import Graph
from halowire.graph.text_table import Layout, read_table

Array = np.ndarray[Any, Any]


def is_ogb_folder(folder: Path) -> bool:
    """Whether ``folder`` (or its ``raw/``) holds an OGB node data set."""
    return (folder / "edge.csv.gz").is_file() or (folder / "raw" / "edge.csv.gz").is_file()


def read_ogb(folder: Path, regression: bool = False) -> Graph:
    """Read ``edge``, ``node-feat``, ``node-label`` and ``num-node-list.csv.gz`` and the masks of ``split/<scheme>/``.

    ``folder`` is the data set's folder (with ``raw/`` and ``split/``) or the raw folder itself; only the edges are
    required. Edges stay directed as stored; edge features are not used. With ``regression`` the labels are values
    instead of classes.
    """
    raw = folder / "raw" if (folder / "raw" / "edge.csv.gz").is_file() else folder
    edges = _csv(raw / "edge.csv.gz", np.int64)
    if edges is None or edges.shape[1] != 2:
        raise InputError(f"{raw / 'edge.csv.gz'} is missing or not two columns wide, expected source,target lines")
    x = _csv(raw / "node-feat.csv.gz", np.float32)
    labels = _csv(raw / "node-label.csv.gz", np.float64)
    counted = _csv(raw / "num-node-list.csv.gz", np.int64)
    num_nodes = _num_nodes(edges, x, labels, counted, raw)
    splits = next((place for place in (folder / "split", folder.parent / "split") if place.is_dir()), None)
    graph = Graph.from_edge_index(
        edges.T,
        num_nodes,
        x,
        labels,
        name=(folder.parent if folder.name == "raw" else folder).resolve().name,
        regression=regression,
    )
    return graph if splits is None else graph.with_split(*_masks(splits, num_nodes))


def _num_nodes(edges: Array, x: Array | None, labels: Array | None, counted: Array | None, raw: Path) -> int:
    if counted is not None:
        if counted.size != 1:
            raise InputError(f"{raw} holds {counted.size} graphs, expected one: only node data sets can be trained on")
        return int(counted.item())
    for table in (x, labels):
        if table is not None:
            return int(table.shape[0])
    return int(edges.max(initial=-1)) + 1


def _masks(splits: Path, num_nodes: int) -> Array:
    """Masks ``[3, N]`` from ``train``, ``valid`` and ``test.csv.gz`` in ``splits`` or in its one subfolder."""
    schemes = sorted({file.parent for file in splits.rglob("train.csv.gz")})
    if len(schemes) != 1:
        names = [scheme.name for scheme in schemes] or "none"
        raise InputError(f"{splits} holds the split schemes {names}, expected exactly one; remove the others")
    masks = np.zeros((3, num_nodes), dtype=bool)
    for mask, name in zip(masks, ("train", "valid", "test"), strict=True):
        path = schemes[0] / f"{name}.csv.gz"
        nodes = _csv(path, np.int64)
        if nodes is None:
            raise InputError(f"there is no file {path}, expected train, valid and test.csv.gz; get the data set again")
        if nodes.size and (nodes.min() < 0 or nodes.max() >= num_nodes):
            raise InputError(f"{path} names node {nodes.max()}, expected 0..{num_nodes - 1}; get the data set again")
        mask[nodes.ravel()] = True
    return masks


def _csv(path: Path, dtype: type) -> Array | None:
    """A headerless comma-separated table ``[rows, columns]``, None where there is nothing of that name."""
    return read_table(path, Layout(",", 0, 0), dtype) if path.exists() else None
