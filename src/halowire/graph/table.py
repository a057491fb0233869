"""Text tables of numbers: finds the delimiter and the header, and reads the columns with NumPy."""

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

Array = np.ndarray[Any, Any]
# Spreadsheets open UTF-8 with a byte order mark; read as part of the first row, it would turn that row into a header.
ENCODING = "utf-8-sig"


@dataclass(frozen=True)
class Layout:
    """How a text table is written.

    Attributes:
        delimiter: what stands between two columns; None for blanks.
        skip: the lines before the first row.
        num_columns: the number of columns.
    """

    delimiter: str | None
    skip: int
    num_columns: int


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
        # By name, because NumPy reads a file that it opened itself in large blocks.
        return np.loadtxt(
            path,
            dtype=dtype,
            delimiter=layout.delimiter,
            skiprows=layout.skip,
            ndmin=2 if plain else 1,
            encoding=ENCODING,
        )


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
