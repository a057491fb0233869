"""The manifest of a shard folder names the graph and the partition, and says what every file must look like.

It has a checksum over itself: its numbers decide what is trained, and most of them stand in no other file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from halowire.errors import InputError, in_one_line
from halowire.files import write_json
from halowire.graph import MOST_CLASSES
from halowire.inputs import fits_checksum, json_checksum, read_json
from halowire.partitioning.array_files import entries_check
from halowire.partitioning.consistency import disagreement
from halowire.partitioning.schema import flag, listed, named, record, text, whole

FORMAT = "halowire-shards"
VERSION = 3
NAME = "manifest.json"
CHECKSUM = "crc32"
"""The field with the checksum over all other fields."""


def read_manifest(folder: Path | str) -> dict[str, Any]:
    """The manifest of a shard folder: as it was written, of this version, complete, its fields of the right types."""
    path = Path(folder) / NAME
    try:
        manifest = read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{folder} is not a shard folder (it has no {NAME}): make one with `halowire partition GRAPH --parts N "
            f"--out {folder}`"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({in_one_line(error)}): partition the graph again") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{path} is not the manifest of a shard folder: expected format {FORMAT!r}")
    if manifest.get("version") != VERSION:
        raise InputError(
            f"{path} has format version {manifest.get('version')!r}, but this halowire reads version {VERSION}: "
            "cut the graph again with `halowire partition`"
        )
    if not fits_checksum(_content(manifest), manifest.get(CHECKSUM)):
        raise InputError(
            f"{path} does not match its own checksum, so it was changed or damaged after it was written: cut the graph "
            "again with `halowire partition` or copy the folder again"
        )
    if mismatch := _mismatch(manifest):
        raise InputError(f"{path} is damaged: {mismatch}; partition the graph again")
    return manifest


def _mismatch(manifest: dict[str, Any]) -> str | None:
    """The first mistake in the manifest, in words; None where there is none."""
    count = whole()
    sizes = dict.fromkeys(("num_nodes", "num_features", "num_boundary"), count)
    per_peer = dict.fromkeys(("send_counts", "recv_counts", "send_crc32", "recv_crc32"), listed(count))
    shard = record({**sizes, **per_peer, "counts": named(count), "files": entries_check()})
    # Parts of inductive training hold a second shard.
    part = {"shard": shard, "train": shard} if manifest.get("inductive") is True else {"shard": shard}
    fields = {
        "graph": text, "num_nodes": count, "num_edges": count, "num_features": count, "num_classes": count,
        "multi_label": flag, "regression": flag, "num_parts": whole(1), "inductive": flag,
        "parts": listed(record(part)),
    }  # fmt: skip
    if mismatch := record(fields)(manifest, ""):
        return mismatch
    most = max(MOST_CLASSES, manifest["num_nodes"])
    if manifest["num_classes"] > most:
        return f"its num_classes is {manifest['num_classes']}, expected at most {most}"
    if len(manifest["parts"]) != manifest["num_parts"]:
        return "it does not list all its parts"
    return next(filter(None, (disagreement(manifest, kind) for kind in part)), None)


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest, which must be the last file written: if it exists, the shards are complete."""
    write_json(folder / NAME, signed({"format": FORMAT, "version": VERSION, "versions": _versions(), **manifest}))


def signed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The ``manifest`` with the checksum over all its other fields."""
    content = _content(manifest)
    return {CHECKSUM: json_checksum(content), **content}


def _content(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """All fields of ``manifest`` but its checksum."""
    return {name: value for name, value in manifest.items() if name != CHECKSUM}


def is_shard_folder(folder: Path) -> bool:
    """Whether the folder holds shards of any version, whole or damaged."""
    try:
        manifest = read_json(folder / NAME)
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def fingerprint(folder: Path) -> bytes:
    """Sizes and checksums of all files of the shards in ``folder``; empty if there are none."""
    return json.dumps(read_manifest(folder)["parts"]).encode() if is_shard_folder(folder) else b""


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
