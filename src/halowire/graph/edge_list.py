"""Graphs from text files: one edge per line, and optional files with the nodes' features and labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from halowire.errors import InputError
from halowire.graph.graph import Graph
from halowire.graph.npy import read_npy
from halowire.graph.seeded import sorted_distinct
from halowire.graph.text_table import read_table, sniff

Array = np.ndarray[Any, Any]
PARTS = ("train", "val", "test")


def read_edge_list(
    path: Path, features: Path | None = None, labels: Path | None = None, regression: bool = False
) -> Graph:
    """Read ``source,target[,weight]`` lines.

    Columns are split by comma, semicolon, tab or blanks; a header, ``#`` comments and ``.gz`` are optional.
    Ids are any whole numbers >= 0. The nodes are all ids that occur in any of the files, in ascending order;
    ``Graph.ids`` keeps them.

    Args:
        path: the edges.
        features: ``id,value,value,...`` lines, one per node; or ``.npy`` ``[N, F]`` in ascending order of the ids.
        labels: ``id,class[,train|val|test]`` lines; nodes without a line are unlabelled.
        regression: the labels are values, any numbers.
    """
    edges = _read_edges(path)
    known = [edges["source"], edges["target"]]
    table = _read_features(features) if features is not None else None
    if table is not None and table.dtype.names:
        known.append(table["id"])
    classes = _read_labels(labels, regression) if labels is not None else None
    if classes is not None:
        known.append(classes["id"])
    ids = sorted_distinct(np.concatenate(known))
    if ids.size and ids[0] < 0:
        raise InputError(f"{path} or its companions hold the node id {ids[0]}, expected ids >= 0; renumber the nodes")
    y, masks = (None, [None] * 3) if classes is None else _place_labels(classes, ids, labels)
    graph = Graph.from_edge_index(
        np.stack([_position(ids, edges["source"]), _position(ids, edges["target"])]),
        ids.size,
        _place_features(table, ids, features) if table is not None and table.dtype.names else table,
        y,
        edge_weight=edges["weight"] if "weight" in (edges.dtype.names or ()) else None,
        ids=ids,
        name=path.name.partition(".")[0],
        regression=regression,
    )
    return graph.with_split(*masks)


def _position(ids: Array, values: Array) -> Array:
    """The place of each of ``values`` in the ascending ``ids``; by a table, or by a search where ids are sparse."""
    if ids.size == 0 or ids[-1] >= 8 * ids.size:
        return np.searchsorted(ids, values)
    table = np.empty(int(ids[-1]) + 1, dtype=np.int64)
    table[ids] = np.arange(ids.size)
    return table[values]


def _read_edges(path: Path) -> Array:
    layout = sniff(path)
    columns = [("source", np.int64), ("target", np.int64), ("weight", np.float32)]
    if layout.num_columns not in (2, 3):
        raise InputError(f"{path} has {layout.num_columns} columns, expected source,target or source,target,weight")
    return read_table(path, layout, columns[: layout.num_columns])


def _read_features(path: Path) -> Array:
    if path.suffix == ".npy":
        table = read_npy(path)
        if table.dtype.names:
            raise InputError(f"{path} holds named columns {table.dtype.names}, expected a plain array [N, F]")
        return table
    layout = sniff(path)
    if layout.num_columns < 2:
        raise InputError(f"{path} has {layout.num_columns} column, expected id,value,value,...")
    return read_table(path, layout, [("id", np.int64), ("x", np.float32, (layout.num_columns - 1,))])


def _read_labels(path: Path, regression: bool) -> Array:
    layout = sniff(path)
    columns = [("id", np.int64), ("label", np.float64 if regression else np.int64), ("part", "U16")]
    if layout.num_columns not in (2, 3):
        raise InputError(f"{path} has {layout.num_columns} columns, expected id,class or id,class,train|val|test")
    return read_table(path, layout, columns[: layout.num_columns])


def _place_features(table: Array, ids: Array, path: Path | None) -> Array:
    row = _rows(table["id"], ids, path)
    if row.size != ids.size:
        missing = np.setdiff1d(ids, table["id"])[0]
        raise InputError(f"{path} has features for {row.size} of {ids.size} nodes (not for {missing}), expected all")
    x = np.empty((ids.size, table["x"].shape[1]), dtype=np.float32)
    x[row] = table["x"]
    return x


def _place_labels(table: Array, ids: Array, path: Path | None) -> tuple[Array, list[Array | None]]:
    row = _rows(table["id"], ids, path)
    values = table["label"].dtype.kind == "f"
    y = np.full(ids.size, np.nan if values else -1, dtype=table["label"].dtype)
    y[row] = table["label"]
    if "part" not in (table.dtype.names or ()):
        return y, [None] * 3
    part = np.char.strip(table["part"])
    odd = ~np.isin(part, [*PARTS, ""])
    if odd.any():
        raise InputError(
            f"{path} puts node {table['id'][odd][0]} into {str(part[odd][0])!r}, expected train, val or test"
        )
    masks = np.zeros((3, ids.size), dtype=bool)
    for mask, name in zip(masks, PARTS, strict=True):
        mask[row[part == name]] = True
    return y, [mask if mask.any() else None for mask in masks]


def _rows(given: Array, ids: Array, path: Path | None) -> Array:
    """Row of every given id; an id that is given twice is an error."""
    row = _position(ids, given)
    count = np.bincount(row, minlength=ids.size)
    if count.max(initial=0) > 1:
        raise InputError(f"{path} has {count.max()} lines for node {ids[count.argmax()]}, expected one line per node")
    return row
