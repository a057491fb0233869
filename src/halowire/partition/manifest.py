"""The manifest of a shard folder: what was cut, how, by which versions, and what every file must look like."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from halowire.kernels import InputError

FORMAT = "halowire-shards"
VERSION = 1
NAME = "manifest.json"
REQUIRED = ("graph", "num_nodes", "num_edges", "num_classes", "multi_label", "num_parts", "inductive", "parts")


def read_manifest(folder: Path | str) -> dict[str, Any]:
    """The manifest of a shard folder, checked for completeness."""
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
    missing = [key for key in REQUIRED if key not in manifest]
    if missing or len(manifest["parts"]) != manifest["num_parts"]:
        what = f"has no {', '.join(missing)}" if missing else "does not list all its parts"
        raise InputError(f"{path} is damaged: it {what}; partition the graph again")
    return manifest


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest; the last file of a shard folder."""
    text = json.dumps({"format": FORMAT, "version": VERSION, **manifest}, indent=1)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")


def is_shard_folder(folder: Path) -> bool:
    """Whether the folder holds shards of any version, whole or damaged."""
    try:
        manifest = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def tool_versions() -> dict[str, str]:
    """Versions of everything that had a hand in the files."""
    versions = {}
    for name in ("halowire", "torch", "numpy", "pymetis"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "unknown"
    return versions
