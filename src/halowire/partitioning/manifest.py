"""The files of a shard folder: arrays in .npy files, and the manifest, which says what every file must look like.

The manifest also names the graph, the partition and the package versions. Arrays are memory-mapped when read.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halowire.errors import InputError, in_one_line
from halowire.files import write_json
from halowire.partitioning.schema import Check, flag, listed, named, record, text, whole

FORMAT = "halowire-shards"
VERSION = 1
NAME = "manifest.json"
CHUNK_BYTES = 1 << 22


def read_manifest(folder: Path | str) -> dict[str, Any]:
    """The manifest of a shard folder, checked for completeness and types."""
    path = Path(folder) / NAME
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{folder} is not a shard folder (it has no {NAME}): make one with `halowire partition GRAPH --parts N "
            f"--out {folder}`"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): partition the graph again") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{path} is not the manifest of a shard folder: expected format {FORMAT!r}")
    if manifest.get("version") != VERSION:
        raise InputError(
            f"{path} has format version {manifest.get('version')}, but this halowire reads version {VERSION}: "
            "partition the graph again"
        )
    if mismatch := _mismatch(manifest):
        raise InputError(f"{path} is damaged: {mismatch}; partition the graph again")
    return manifest


def _mismatch(manifest: dict[str, Any]) -> str | None:
    """The first mistake in the manifest, in words; None where there is none."""
    count = whole()
    sizes = dict.fromkeys(("num_nodes", "num_features", "num_boundary"), count)
    per_peer = dict.fromkeys(("send_counts", "recv_counts"), listed(count))
    shard = record({**sizes, **per_peer, "counts": named(count), "files": entries_check()})
    # Parts of inductive training hold a second shard.
    part = {"shard": shard, "train": shard} if manifest.get("inductive") is True else {"shard": shard}
    fields = {
        "graph": text, "num_nodes": count, "num_edges": count, "num_classes": count, "multi_label": flag,
        "num_parts": whole(1), "inductive": flag, "parts": listed(record(part)),
    }  # fmt: skip
    if mismatch := record(fields)(manifest, ""):
        return mismatch
    return None if len(manifest["parts"]) == manifest["num_parts"] else "it does not list all its parts"


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest, which must be the last file written: if it exists, the shards are complete."""
    write_json(folder / NAME, {"format": FORMAT, "version": VERSION, "versions": _versions(), **manifest})


def is_shard_folder(folder: Path) -> bool:
    """Whether the folder holds shards of any version, whole or damaged."""
    try:
        manifest = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def require_free(folder: Path) -> None:
    """Refuse a ``folder`` that holds anything but shards; shards in it may be replaced."""
    if folder.exists() and not is_shard_folder(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not a folder of shards; choose another name or remove it first")


def _versions() -> dict[str, str]:
    """Versions of the packages that made the files."""
    versions = {}
    for name in ("halowire", "torch", "numpy", "pymetis"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "unknown"
    return versions


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
