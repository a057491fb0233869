"""Arrays in .npy files, each with an entry that says what the file must look like; read in one pass, then mapped.

The pass (see `file_pass.py`) looks at the values while a piece of the file is in the processor's cache.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from halowire.errors import InputError, in_one_line
from halowire.graph import NpyHeader, read_npy_header
from halowire.inputs import file_size, open_file
from halowire.kernels import Kind, Rule
from halowire.partitioning.file_pass import FilePass
from halowire.partitioning.schema import Check, listed, named, record, text, whole

PIECE_BYTES = 1 << 22
"""Bytes that are read at once: they stay in the cache between the checksum and the look at the values, which costs some
microseconds for each piece whatever its size."""
ALIGNED = 64
"""NumPy fills up headers, so that the values begin at a multiple of so many bytes."""
LIMIT = 2**63 - 1
REMEDY = "partition the graph again or copy the folder again"


@dataclass(frozen=True)
class Values:
    """Which values an array may hold: the ``rule``, and its ``words`` for messages; the lengths of its ``runs``."""

    words: str
    rule: Rule
    runs: tuple[int, ...] = ()


def between(low: int, high: int, runs: Sequence[int] = ()) -> Values:
    """Whole numbers from ``low`` to ``high - 1``; the checksums of ``runs`` are wanted."""
    words = f"whole numbers from {low} to {high - 1}" if high > low else "no entry, because there is nothing to name"
    return Values(words, Rule(Kind.RANGE, low, high), tuple(runs))


def finite(positive: bool = False) -> Values:
    """Finite numbers, not below zero where ``positive``."""
    words = "finite numbers >= 0" if positive else "finite numbers"
    return Values(words, Rule(Kind.POSITIVE if positive else Kind.FINITE))


def rising(last: int) -> Values:
    """Whole numbers that begin at 0, never fall and end at ``last``; where they do must be asked of the array."""
    return Values(f"whole numbers that rise from 0 to {last}", Rule(Kind.RISING, 0, LIMIT))


def ordered(high: int, runs: Sequence[int], words: str) -> Values:
    """Whole numbers from 0 to ``high - 1`` that never fall within one of the ``runs``; ``words`` name the runs."""
    return Values(
        f"whole numbers from 0 to {high - 1} that rise within {words}", Rule(Kind.RISING, 0, high), tuple(runs)
    )


@dataclass(frozen=True)
class Expected:
    """What an array must be: one of ``dtypes``, the ``shape`` (None: any size; any further ones), its ``values``."""

    dtypes: tuple[str, ...]
    shape: tuple[int | None, ...]
    values: Values | None = None
    further: bool = False

    def fits(self, dtype: str, shape: list[int]) -> bool:
        """Whether type and shape are as expected."""
        wanted = self.shape + (None,) * (len(shape) - len(self.shape) if self.further else 0)
        sized = len(shape) == len(wanted) and all(b in (None, a) for a, b in zip(shape, wanted, strict=True))
        return sized and (not self.dtypes or dtype in self.dtypes)

    def __str__(self) -> str:
        sizes = ["any" if size is None else str(size) for size in self.shape] + ["..."] * self.further
        return f"{' or '.join(self.dtypes) or 'numbers'} [{', '.join(sizes)}]"


class Arrays(dict[str, Tensor]):
    """Arrays by their names, and the checksums of the runs of each."""

    def __init__(self) -> None:
        super().__init__()
        self.digests: dict[str, list[int]] = {}


def entries_check() -> Check:
    """A check for the entries of the arrays in a folder: ``{name: {bytes, crc32, dtype, shape}}``."""
    count = whole()
    return named(record({"bytes": count, "crc32": count, "dtype": text, "shape": listed(count)}))


def write_arrays(folder: Path, arrays: Mapping[str, Tensor]) -> dict[str, dict[str, Any]]:
    """Write every array to ``folder/<name>.npy``; returns the entries that :func:`read_arrays` needs."""
    folder.mkdir(parents=True)
    entries = {}
    for name, tensor in arrays.items():
        path, array = folder / f"{name}.npy", np.ascontiguousarray(tensor.numpy())
        np.save(path, array, allow_pickle=False)
        entries[name] = {
            "bytes": path.stat().st_size,
            "crc32": checksum(path),
            "dtype": array.dtype.name,
            "shape": list(array.shape),
        }
    return entries


def read_arrays(
    folder: Path, entries: Mapping[str, Mapping[str, Any]], verify: bool, expected: Mapping[str, Expected]
) -> Arrays:
    """Memory-map the arrays of ``entries``, none of which may be other than ``expected``.

    Types and sizes are always checked; checksums and values, which read every byte, on ``verify``; small files are then
    kept as they were read. The maps are copy-on-write: changing a tensor never changes the file.
    """
    for name, entry in entries.items():
        path, wanted = folder / f"{name}.npy", expected.get(name)
        if wanted is None:
            raise InputError(f"{path} is no array of such a folder, expected one of {', '.join(expected)}: {REMEDY}")
        if not wanted.fits(entry["dtype"], entry["shape"]):
            raise InputError(f"{path} holds {entry['dtype']} {entry['shape']}, expected {wanted}: {REMEDY}")
    arrays = Arrays()
    for name, entry in entries.items():
        arrays[name], arrays.digests[name] = _read_array(folder / f"{name}.npy", entry, expected[name].values, verify)
    return arrays


def checksum(path: Path) -> int:
    """The CRC-32 checksum of a file."""
    size = file_size(path)
    with open_file(path) as file:
        return _pass(file, size, None, None, torch.empty(PIECE_BYTES, dtype=torch.uint8)).checksum


def _read_array(path: Path, entry: Mapping[str, Any], values: Values | None, verify: bool) -> tuple[Tensor, list[int]]:
    """The array, and the checksums of its runs on ``verify``."""
    bad, digests = None, []
    try:
        size = file_size(path)
        if size != entry["bytes"]:
            raise InputError(f"{path} has {size} bytes, but the manifest says {entry['bytes']}: {REMEDY}")
        with open_file(path) as file:
            piece = torch.empty(min(size, PIECE_BYTES), dtype=torch.uint8)
            if verify:
                # Before the header is parsed: what does not match its checksum is damaged, whatever else it is.
                header = _header(file, size, entry["dtype"])
                seen = _pass(file, size, header, values, piece)
                if seen.checksum != entry["crc32"]:
                    raise InputError(f"{path} does not match its checksum, so its content has changed: {REMEDY}")
                bad, digests = seen.bad, seen.digests
            header = _aligned(read_npy_header(file, size))
            if header.dtype.name != entry["dtype"] or list(header.shape) != entry["shape"]:
                raise InputError(
                    f"{path} holds {header.dtype.name} {list(header.shape)}, but the manifest says "
                    f"{entry['dtype']} {entry['shape']}: {REMEDY}"
                )
            # A file of one piece is in memory already: a map would have to be filled page by page.
            array = _values(piece.numpy().data if verify and size <= PIECE_BYTES else file, header)
    except FileNotFoundError:
        raise InputError(f"{path} is missing: {REMEDY}") from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({in_one_line(error)}): {REMEDY}") from None
    if values is not None and bad is not None:
        raise InputError(f"{path} holds {array.flatten()[bad]} at place {bad}, expected {values.words}: {REMEDY}")
    return array, digests


def _header(file: IO[bytes], size: int, dtype: str) -> NpyHeader | None:
    """The header, or None where it is damaged or names another type; the file is at its beginning again."""
    try:
        header = _aligned(read_npy_header(file, size))
        return header if header.dtype.name == dtype else None
    except ValueError:
        return None
    finally:
        file.seek(0)


def _aligned(header: NpyHeader) -> NpyHeader:
    """The header, whose values must begin where they can be mapped and looked at in place."""
    if header.offset % ALIGNED:
        raise ValueError(f"its values begin at byte {header.offset}, expected a multiple of {ALIGNED}")
    return header


def _pass(file: IO[bytes], size: int, header: NpyHeader | None, values: Values | None, buffer: Tensor) -> FilePass:
    """Read a file once, piece by piece, each into the ``buffer``, which holds all of a file that fits."""
    kind = None if header is None or values is None else getattr(torch, header.dtype.name, None)
    if header is None or values is None or kind is None:
        seen = FilePass(size, 0, torch.uint8, Rule())
    else:
        seen = FilePass(size, header.offset, kind, values.rule, values.runs)
    memory = buffer.numpy().data
    while count := file.readinto(memory):  # type: ignore[attr-defined]
        seen.take(buffer[:count])
    file.seek(0)
    return seen


def _values(source: IO[bytes] | memoryview, header: NpyHeader) -> Tensor:
    """The values of an .npy file, in the memory that holds it or in a copy-on-write map of the file."""
    if not header.dtype.isnative or (header.fortran and len(header.shape) > 1):
        raise ValueError(f"its values are {header.dtype} in an order that halowire never writes")
    if 0 in header.shape:
        return torch.from_numpy(np.empty(header.shape, header.dtype))
    held = source if isinstance(source, memoryview) else mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_COPY)
    return torch.from_numpy(np.frombuffer(held, header.dtype, offset=header.offset).reshape(header.shape))
