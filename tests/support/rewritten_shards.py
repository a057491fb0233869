"""Shards on disk whose content is changed while their manifest stays right: sizes, types, all checksums fit again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from halowire.partitioning.array_files import checksum
from halowire.partitioning.manifest import signed

Arrays = np.ndarray[Any, Any]


def put_manifest(folder: Path, values: Any) -> None:
    """Write any ``values`` as the manifest of a shard folder, with the checksum that they should have."""
    values = signed(values) if isinstance(values, dict) else values
    (folder / "manifest.json").write_text(json.dumps(values))


def change_manifest(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Let ``change`` work on the manifest of a shard folder, whose checksum then fits again."""
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    put_manifest(folder, manifest)


def rewrite(folder: Path, part: int, name: str, change: Callable[[Arrays], Arrays | None], train: bool = False) -> None:
    """Change an array of a part, in place or by a new one, and write its entry in the manifest anew."""
    place = folder / f"part-{part}" / ("train" if train else "")
    path = place / f"{name}.npy"
    array = np.load(path)
    made = change(array)
    np.save(path, array if made is None else made)
    enter(folder, part, name, train)


def enter(folder: Path, part: int, name: str, train: bool = False) -> None:
    """Write the entry of an array in the manifest as its file is now."""
    path = folder / f"part-{part}" / ("train" if train else "") / f"{name}.npy"
    array = np.load(path)
    entry = {
        "bytes": path.stat().st_size,
        "crc32": checksum(path),
        "dtype": array.dtype.name,
        "shape": list(array.shape),
    }
    shard = "train" if train else "shard"
    change_manifest(folder, lambda manifest: manifest["parts"][part][shard]["files"].update({name: entry}))


def put(place: Any, value: Any) -> Callable[[Arrays], None]:
    """A change that puts ``value`` at ``place``."""

    def change(array: Arrays) -> None:
        array[place] = value

    return change
