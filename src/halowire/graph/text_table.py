"""Tables of numbers in text files, plain or gzipped: layout and size are looked at before anything is read."""

from __future__ import annotations

import gzip
import re
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from halowire.errors import InputError, in_one_line, size_text
from halowire.inputs import LONGEST_LINE, memory_bytes, open_file

Array = np.ndarray[Any, Any]
# Spreadsheets begin a file with a byte order mark; read as part of the first row, it would make that row a header.
ENCODING = "utf-8-sig"
LINES_SEEN = 1000
"""Lines in which the first row is looked for, below comments."""
PIECE_BYTES = 1 << 20
ENDS = (b"\n", b"\r")
ENDLESS = f"it has a line of more than {LONGEST_LINE} bytes"


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


def sniff(path: Path) -> Layout:
    """Look at the first lines of ``path``; a first line whose first column is not a number is a header."""
    with _damage_named(path), _opened(path) as file:
        text = b"".join(_lines(file, LINES_SEEN)).decode(ENCODING)
    rows = [(number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines())]
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
        _refuse_too_large(path, layout, np.dtype(dtype))
        # NumPy warns about files without rows; the caller has a better message.
        warnings.simplefilter("ignore", UserWarning)
        # The file is given by name, because NumPy reads only files that it opened itself in large blocks.
        shape: dict[str, Any] = {"delimiter": layout.delimiter, "skiprows": layout.skip, "ndmin": 2 if plain else 1}
        return np.loadtxt(path, dtype=dtype, encoding=ENCODING, **shape)


def _refuse_too_large(path: Path, layout: Layout, dtype: np.dtype[Any]) -> None:
    """Read the file once, in small pieces: NumPy would take the memory for an endless line, or for any gzipped one."""
    with _opened(path) as file:
        first = next(_lines(file, 1), b"")
    columns = layout.num_columns or len(first.split((layout.delimiter or " ").encode()))
    width = dtype.itemsize * (1 if dtype.names else columns)
    most, rows, open_line = memory_bytes(), 1, 0
    with _opened(path) as file:
        while piece := file.read(PIECE_BYTES):
            if b"\0" in piece:
                raise ValueError("it holds a byte of zero, so it is no text in UTF-8")
            if open_line + min((at for at in map(piece.find, ENDS) if at >= 0), default=len(piece)) > LONGEST_LINE:
                raise ValueError(ENDLESS)
            end = max(map(piece.rfind, ENDS))
            open_line = len(piece) - end - 1 if end >= 0 else open_line + len(piece)
            rows += sum(map(piece.count, ENDS))
            if rows * width > most:
                raise InputError(
                    f"{path} holds more rows than fit into the {size_text(most)} of memory that there are; read it on "
                    "a larger machine, or get it again"
                )


def _lines(file: IO[bytes], count: int) -> Iterator[bytes]:
    """The first ``count`` lines, with their ends; an endless one is refused."""
    for _ in range(count):
        line = file.readline(LONGEST_LINE + 1)
        if len(line) > LONGEST_LINE:
            raise ValueError(ENDLESS)
        yield line


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Turn everything that a damaged text file can raise into one line that names the file."""
    try:
        yield
    except InputError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is cut off or not a gzip file ({in_one_line(error)}); get it again") from error
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; check the path") from None
    except OSError as error:
        raise InputError(
            f"{path} cannot be opened ({in_one_line(error)}); check the path and its permissions"
        ) from error
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{path} cannot be read: {in_one_line(error)}; expected the same numeric columns in every row"
        ) from error


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of the text in a file, which may be gzipped."""
    with open_file(path) as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile(fileobj=file) as text:
            yield text  # type: ignore[misc]
