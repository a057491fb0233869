"""Shards on disk whose content is changed while their manifest stays right: sizes, types and checksums fit again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from halowire.partitioning.array_files import checksum

Arrays = np.ndarray[Any, Any]


def change_manifest(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Let ``change`` work on the manifest of a shard folder."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


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
