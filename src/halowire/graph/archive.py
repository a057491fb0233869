"""The arrays of an .npz archive, read without trust: what they declare must fit their bytes and the memory first."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from halowire.errors import InputError, in_one_line, size_text
from halowire.graph.npy import read_npy_header
from halowire.inputs import memory_bytes, open_file

SUFFIX = ".npy"
ENCRYPTED = 1
"""The bit of a member's flags that says that it is encrypted."""
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The ways of storing that NumPy uses."""
MOST_DEFLATED = 1032
"""Bytes that one deflated byte can stand for at most: who declares more has less than that."""


def read_archive(file: Path | IO[bytes], where: str, wanted: Callable[[str], bool]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of an archive whose names are ``wanted``; ``where`` names the archive in messages."""
    with _damage_named(where), _opened(file) as stream:
        _refuse_single_array(stream, where)
        with zipfile.ZipFile(stream) as archive:
            members = {
                info.filename.removesuffix(SUFFIX): info
                for info in archive.infolist()
                if info.filename.endswith(SUFFIX) and wanted(info.filename.removesuffix(SUFFIX))
            }
            _refuse_too_large(members, where)
            return {name: _read(archive, info) for name, info in members.items()}


@contextmanager
def _opened(file: Path | IO[bytes]) -> Iterator[IO[bytes]]:
    """The bytes of a file that is given by its path, or open already."""
    if isinstance(file, Path):
        with open_file(file) as stream:
            yield stream
    else:
        yield file


@contextmanager
def _damage_named(where: str) -> Iterator[None]:
    """Turn everything that a damaged archive can raise into one line that names it."""
    try:
        yield
    except InputError:
        raise
    except (
        zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, KeyError, NotImplementedError,
        OverflowError,
    ) as error:  # fmt: skip
        raise InputError(
            f"{where} cannot be read as an .npz archive ({in_one_line(error)}); it may be cut off or damaged, "
            "get it again"
        ) from error


def _refuse_single_array(stream: IO[bytes], where: str) -> None:
    magic = stream.read(len(np.lib.format.MAGIC_PREFIX))
    stream.seek(0)
    if magic == np.lib.format.MAGIC_PREFIX:
        raise InputError(f"{where} holds a single array, expected an .npz archive with edge_index")


def _refuse_too_large(members: dict[str, zipfile.ZipInfo], where: str) -> None:
    declared, most = sum(info.file_size for info in members.values()), memory_bytes()
    if declared > most:
        raise InputError(
            f"{where} declares arrays of {size_text(declared)}, expected at most the {size_text(most)} of memory that "
            "there are; read it on a larger machine, or get it again"
        )


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    """One array, whose header must describe exactly the bytes of the member, and the member what it can hold."""
    if info.compress_type not in METHODS or info.flag_bits & ENCRYPTED:
        raise ValueError(f"{info.filename} is stored in another way than NumPy's")
    if info.file_size > MOST_DEFLATED * info.compress_size + MOST_DEFLATED:
        raise ValueError(f"{info.filename} declares {info.file_size} bytes, but holds {info.compress_size} packed ones")
    with archive.open(info) as stream:
        read_npy_header(stream, info.file_size)
    with archive.open(info) as stream:
        array = np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
        stream.read(1)  # past the end: only there the checksum is compared
    return array
