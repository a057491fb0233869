"""NumPy's .npy format, read without trust: a header must describe exactly the bytes that follow before any is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from halowire.errors import InputError, in_one_line, size_text
from halowire.inputs import file_size, memory_bytes, open_file

LIMIT = 2**63
"""Sizes from here on are beyond all arrays; one of them beside a 0 would declare no bytes."""


@dataclass(frozen=True)
class NpyHeader:
    """What the header of an .npy file says.

    Attributes:
        shape, dtype: of the array.
        fortran: whether the values are stored column by column.
        offset: where the values begin in the file.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    offset: int


def read_npy_header(file: IO[bytes], size: int) -> NpyHeader:
    """The header at the beginning of an .npy file of ``size`` bytes, read up to where the values begin.

    Raises `ValueError` unless the values that it declares fill the rest of the file exactly: memory for an array is
    never allocated because of a number in a file alone.
    """
    try:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran, dtype = read(file)
    except OSError:
        raise
    except Exception as error:  # NumPy reads headers with Python's own parser, which raises many things
        raise ValueError(f"it has no header of an .npy file ({in_one_line(error)})") from None
    if dtype.hasobject or dtype.itemsize == 0 or not all(0 <= size < LIMIT for size in shape):
        raise ValueError(f"it declares {dtype} {list(shape)}, expected an array of numbers")
    offset, declared = file.tell(), math.prod(shape) * dtype.itemsize
    if declared != size - offset:
        raise ValueError(f"it declares {dtype} {list(shape)}, {declared} bytes, but holds {size - offset} bytes")
    return NpyHeader(tuple(shape), dtype, fortran, offset)


def read_npy(path: Path) -> np.ndarray[Any, Any]:
    """The array of numbers in a file."""
    try:
        with open_file(path) as file:
            header = read_npy_header(file, file_size(path))
            needed, most = math.prod(header.shape) * header.dtype.itemsize, memory_bytes()
            if needed > most:
                raise ValueError(
                    f"it holds {size_text(needed)}, more than the {size_text(most)} of memory that there are"
                )
            file.seek(0)
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
    except (ValueError, OSError) as error:
        raise InputError(f"{path} cannot be read as an .npy file ({in_one_line(error)}); check the path") from error
