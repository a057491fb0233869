"""The manifest of a shard folder: what was cut, how, by which versions, and what every file must look like."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from halowire.errors import InputError
from halowire.partitioning.arrays import entries_check
from halowire.partitioning.schema import flag, listed, named, record, text, whole

FORMAT = "halowire-shards"
VERSION = 1
NAME = "manifest.json"


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
    shard = record(
        {
            "num_nodes": count,
            "num_features": count,
            "num_boundary": count,
            "send_counts": listed(count),
            "recv_counts": listed(count),
            "counts": named(count),
            "files": entries_check(),
        }
    )
    # Parts of inductive training hold a second shard.
    part = {"shard": shard, "train": shard} if manifest.get("inductive") is True else {"shard": shard}
    fields = {
        "graph": text,
        "num_nodes": count,
        "num_edges": count,
        "num_classes": count,
        "multi_label": flag,
        "num_parts": whole(1),
        "inductive": flag,
        "parts": listed(record(part)),
    }
    if mismatch := record(fields)(manifest, ""):
        return mismatch
    return None if len(manifest["parts"]) == manifest["num_parts"] else "it does not list all its parts"


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest, which must be the last file written: where it is, the shards are complete."""
    text = json.dumps({"format": FORMAT, "version": VERSION, **manifest}, indent=1)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")


def is_shard_folder(folder: Path) -> bool:
    """Whether the folder holds shards of any version, whole or damaged."""
    try:
        manifest = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def require_free(folder: Path) -> None:
    """Refuse a place for shards that holds something else; shards there would be replaced."""
    if folder.exists() and not is_shard_folder(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not a folder of shards; choose another name or remove it first")


def tool_versions() -> dict[str, str]:
    """Versions of the packages that made the files."""
    versions = {}
    for name in ("halowire", "torch", "numpy", "pymetis"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "unknown"
    return versions
