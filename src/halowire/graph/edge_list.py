"""Graphs from text files: one edge per line, and optional files with the nodes' features and labels."""

from __future__ import annotations

import gzip
import itertools
import re
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from halowire.errors import InputError, in_one_line
from halowire.graph.graph import Graph
from halowire.graph.seeded import sorted_distinct

Array = np.ndarray[Any, Any]
# Spreadsheets begin a file with a byte order mark; read as part of the first row, it would make that row a header.
ENCODING = "utf-8-sig"
PARTS = ("train", "val", "test")


@dataclass(frozen=True)
class Layout:
    """How a text table is written.

    Attributes:
        delimiter: the character between two columns; None for blanks.
        skip: the number of lines before the first row.
        num_columns: the number of columns.
    """

    delimiter: str | None
    skip: int
    num_columns: int


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
        try:
            table = np.asarray(np.load(path, allow_pickle=False))
        except (ValueError, EOFError, OSError) as error:
            raise InputError(f"{path} cannot be read as an .npy file ({in_one_line(error)}); check the path") from error
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


def sniff(path: Path) -> Layout:
    """Look at the first lines of ``path``; a first line whose first column is not a number is a header."""
    with _damage_named(path), _open(path) as file:
        lines = [(number, line.strip()) for number, line in enumerate(itertools.islice(file, 1000))]
    rows = [(number, line.partition("#")[0].strip()) for number, line in lines]
    rows = [(number, line) for number, line in rows if line]
    if not rows:
        raise InputError(f"{path} holds no rows, expected numbers separated by commas, tabs or blanks")
    delimiter = next((mark for mark in ",\t;" if mark in rows[0][1]), None)
    columns = len(rows[0][1].split(delimiter))
    if not re.match(r"[-+.\d]|nan\b", rows[0][1], re.IGNORECASE):
        if len(rows) == 1:
            raise InputError(f"{path} holds a header but no rows, expected numbers below {rows[0][1][:60]!r}")
        return Layout(delimiter, rows[0][0] + 1, columns)
    return Layout(delimiter, rows[0][0], columns)


def read_table(path: Path, layout: Layout, dtype: Any) -> Array:
    """Rows of ``path`` as ``dtype``: a structured type names the columns, a plain one gives ``[rows, columns]``."""
    plain = np.dtype(dtype).names is None
    with _damage_named(path), warnings.catch_warnings():
        # NumPy warns about files without rows; the caller has a better message.
        warnings.simplefilter("ignore", UserWarning)
        # The file is given by name, because NumPy reads only files that it opened itself in large blocks.
        shape: dict[str, Any] = {"delimiter": layout.delimiter, "skiprows": layout.skip, "ndmin": 2 if plain else 1}
        return np.loadtxt(path, dtype=dtype, encoding=ENCODING, **shape)


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Turn everything that a damaged text file can raise into one line that names the file."""
    try:
        yield
    except InputError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is cut off or not a gzip file ({in_one_line(error)}); get it again") from error
    except OSError as error:
        raise InputError(
            f"{path} cannot be opened ({in_one_line(error)}); check the path and its permissions"
        ) from error
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{path} cannot be read: {in_one_line(error)}; expected the same numeric columns in every row"
        ) from error


def _open(path: Path) -> IO[str]:
    if not path.is_file():
        raise InputError(f"there is no file {path}; check the path")
    return gzip.open(path, "rt", encoding=ENCODING) if path.suffix == ".gz" else path.open(encoding=ENCODING)
