"""Arrays on disk: one .npy file each, with its size and checksum, memory-mapped when read."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halowire.errors import InputError, in_one_line
from halowire.partitioning.schema import Check, listed, named, record, text, whole

CHUNK_BYTES = 1 << 22


def entries_check() -> Check:
    """What the entries of the arrays in a folder must look like: ``{name: {bytes, crc32, dtype, shape}}``."""
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


def read_arrays(folder: Path, entries: Mapping[str, Mapping[str, Any]], verify: bool) -> dict[str, Tensor]:
    """Memory-map the arrays of ``entries``; sizes are always checked, checksums (which read every byte) on ``verify``.

    The maps are copy-on-write: changing a tensor never changes the file.
    """
    return {name: _read_array(folder / f"{name}.npy", entry, verify) for name, entry in entries.items()}


def checksum(path: Path) -> int:
    """The CRC-32 checksum of a file."""
    value = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            value = zlib.crc32(chunk, value)
    return value


def _read_array(path: Path, entry: Mapping[str, Any], verify: bool) -> Tensor:
    remedy = "partition the graph again or copy the folder again"
    try:
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise InputError(f"{path} has {size} bytes, but the manifest says {entry['bytes']}: {remedy}")
        if verify and checksum(path) != entry["crc32"]:
            raise InputError(f"{path} does not match its checksum, so its content has changed: {remedy}")
        array = np.load(path, mmap_mode="c", allow_pickle=False)
        if array.dtype.name != entry["dtype"] or list(array.shape) != list(entry["shape"]):
            raise InputError(
                f"{path} holds {array.dtype.name} {list(array.shape)}, but the manifest says "
                f"{entry['dtype']} {entry['shape']}: {remedy}"
            )
        return torch.from_numpy(np.asarray(array))
    except FileNotFoundError:
        raise InputError(f"{path} is missing: {remedy}") from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({in_one_line(error)}): {remedy}") from None
