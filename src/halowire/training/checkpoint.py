"""A checkpoint is a folder `checkpoints/epoch-<n>/` with the whole state of a run after ``n`` epochs.

==========================  ==========================================================================================
`manifest.json`             format, epoch, workers, settings, and size and checksum of every file of this folder
`state.json`                how far the run is (:class:`Progress`); where rank 0 is
`state.safetensors`         weights, best weights, optimiser, random numbers; where rank 0 is
`wire-<rank>.safetensors`   what the wire of a worker remembers, if its recipe's wire remembers anything
==========================  ==========================================================================================

The folder is filled under a temporary name and published by one rename, when all files of all workers are on disk.
Machines that share no file system have a folder each, with the files of their own workers.
"""

from __future__ import annotations

import json
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import Tensor

from halowire.errors import InputError, in_one_line
from halowire.files import put_in_place, sync_folder, write_synced, written_to
from halowire.inputs import file_size, fits_checksum, json_checksum, open_file, read_json

CHECKPOINTS = "checkpoints"
MANIFEST = "manifest.json"
RECORD = "state.json"
STATE = "state.safetensors"
FORMAT = "halowire-checkpoint"
VERSION = 1
Tensors = dict[str, Tensor]


class DamagedError(ValueError):
    """A checkpoint is not as it was written; the text says what is wrong with it."""


@dataclass
class Progress:
    """How far a run is: the next epoch, the best validation result, the totals over all workers so far.

    ``lowered`` counts how often the learning rate was halved because a value was not finite.
    """

    epoch: int = 0
    best_epoch: int = -1
    best: dict[str, float] = field(default_factory=dict)
    best_weights: Tensors = field(default_factory=dict)
    stale_evaluations: int = 0
    lowered: int = 0
    train_loss: float = float("nan")
    sent: dict[str, int] = field(default_factory=dict)
    epoch_seconds: list[float] = field(default_factory=list)
    wait_seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Entry:
    """What a file of a checkpoint must be like: its size in bytes, and the checksum of its content."""

    size: int
    crc32: int

    @staticmethod
    def of(data: bytes | memoryview) -> Entry:
        """The entry of a file with this content."""
        return Entry(len(data), zlib.crc32(data))


@dataclass(frozen=True)
class Manifest:
    """What `manifest.json` says of a checkpoint.

    Attributes:
        epoch: how many epochs the run has behind it.
        save: a name that the folders of one checkpoint share on all machines, and no others.
        wire: whether every worker saved what its wire remembers.
        settings: the settings and facts that a resumed run compares with its own.
        files: the entries of the files in the folder.
    """

    epoch: int
    save: str
    wire: bool
    settings: dict[str, Any]
    files: dict[str, Entry]

    def to_bytes(self) -> bytes:
        """The content of `manifest.json`, with a checksum over itself."""
        facts = {"version": VERSION, "halowire": version("halowire"), **asdict(self)}
        return json.dumps({"format": FORMAT, "crc32": json_checksum(facts), "manifest": facts}, indent=1).encode()

    @staticmethod
    def read(folder: Path) -> Manifest:
        """The manifest of a checkpoint; raises :class:`DamagedError` where it is missing or not as it was written."""
        try:
            values = read_json(folder / MANIFEST)
        except FileNotFoundError:
            raise DamagedError(f"it has no {MANIFEST}, as checkpoints of earlier versions of halowire") from None
        except (OSError, ValueError) as error:
            raise DamagedError(f"{MANIFEST} cannot be read ({in_one_line(error)})") from None
        return Manifest.parse(values)

    @staticmethod
    def parse(values: Any) -> Manifest:
        """The manifest in the ``values`` of a `manifest.json`."""
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise DamagedError(f"{MANIFEST} is not the manifest of a checkpoint")
        facts = values.get("manifest")
        if not isinstance(facts, dict) or not fits_checksum(facts, values.get("crc32")):
            raise DamagedError(f"{MANIFEST} has not the content that was written")
        if facts.get("version") != VERSION:
            raise DamagedError(
                f"it has format version {facts.get('version')!r}, but this halowire reads version {VERSION}"
            )
        try:
            files = {name: Entry(**entry) for name, entry in facts["files"].items()}
            found = Manifest(facts["epoch"], facts["save"], facts["wire"], facts["settings"], files)
        except (KeyError, TypeError, AttributeError) as error:
            raise DamagedError(f"{MANIFEST} lacks {error}") from None
        for name, kind in (("epoch", int), ("save", str), ("wire", bool), ("settings", dict)):
            if type(getattr(found, name)) is not kind:
                raise DamagedError(f"{MANIFEST} has {name} {getattr(found, name)!r:.40}, expected {kind.__name__}")
        return found


def wire_file(rank: int) -> str:
    """The name of the file with what the wire of worker ``rank`` remembers."""
    return f"wire-{rank}.safetensors"


def folder_of(run: Path, epoch: int) -> Path:
    """The folder of the checkpoint after ``epoch`` epochs."""
    return run / CHECKPOINTS / f"epoch-{epoch:06d}"


def saved(run: Path) -> list[Path]:
    """The folders of all published checkpoints, whole or damaged, the newest first."""
    found = {}
    for path in (run / CHECKPOINTS).glob("epoch-*"):
        if match := re.fullmatch(r"epoch-(\d{6,18})", path.name):
            found[int(match[1])] = path
    return [found[epoch] for epoch in sorted(found, reverse=True)]


def newest_checkpoint(run: Path) -> Path | None:
    """The newest checkpoint whose files are all there in their sizes, or None; their content is not read."""
    return next((folder for folder in saved(run) if _looks_whole(folder)), None)


def _looks_whole(folder: Path) -> bool:
    try:
        return all(file_size(folder / name) == entry.size for name, entry in Manifest.read(folder).files.items())
    except (OSError, ValueError):
        return False


def read_file(folder: Path, manifest: Manifest, name: str) -> bytes:
    """The content of a file of a checkpoint; raises :class:`DamagedError` where it is not as it was written."""
    entry = manifest.files.get(name)
    if entry is None:
        raise DamagedError(f"{name} is not listed in its {MANIFEST}")
    try:
        size = file_size(folder / name)
        if size != entry.size:  # asked before anything is allocated
            raise DamagedError(f"{name} has {size} bytes, expected {entry.size}")
        with open_file(folder / name) as file:
            data = file.read()
    except FileNotFoundError:
        raise DamagedError(f"{name} is missing") from None
    except (OSError, ValueError) as error:
        raise (
            error if isinstance(error, DamagedError) else DamagedError(f"{name} cannot be read ({in_one_line(error)})")
        ) from None
    if Entry.of(data) != entry:
        raise DamagedError(f"{name} has not the content that was written: its checksum differs")
    return data


def publish(temporary: Path, final: Path, manifest: Manifest) -> None:
    """Complete the folder ``temporary`` with its manifest, and rename it to ``final``; on return that is on disk."""
    write_synced(temporary, {MANIFEST: manifest.to_bytes()})
    sync_folder(temporary)
    if not _is_folder(final):  # a link or a file would be in the way of the rename
        final.unlink(missing_ok=True)
    put_in_place(temporary, final)
    sync_folder(final.parent)


def remove_checkpoint(folder: Path) -> None:
    """Remove a checkpoint, so that at no moment a half of it is taken for a checkpoint.

    Of a link, also of one to nowhere, only the link is removed.
    """
    if folder.exists() or folder.is_symlink():
        removed = folder.with_name(f".{folder.name}.removed.tmp")
        _clear(removed)
        folder.rename(removed)
        _clear(removed)


def keep_newest(run: Path, count: int, damaged: Mapping[str, str]) -> None:
    """Remove all checkpoints but the newest ``count``; those that are ``damaged`` do not count, and go too."""
    whole = [folder for folder in saved(run) if folder.name not in damaged]
    for folder in saved(run):
        if folder not in whole[:count]:
            remove_checkpoint(folder)


def refuse_unwritable(run: Path, rank: int) -> None:
    """Make the folder of checkpoints, and write and remove a file there: a run must not learn at its first save, after
    minutes or at its end, that it cannot save."""
    checkpoints = run / CHECKPOINTS
    if checkpoints.exists() and not checkpoints.is_dir():
        raise InputError(
            f"{checkpoints} is a file, but the run saves its checkpoints in a folder of that name; move the file away, "
            "or choose another --out"
        )
    trial = checkpoints / f".epoch-trial.tmp-{rank}"  # a name that is removed with those of half-written checkpoints
    with written_to(checkpoints):
        # Not its parents: the run folder exists, unless it was deleted, which is an error.
        checkpoints.mkdir(exist_ok=True)
        try:
            trial.mkdir(exist_ok=True)
            (trial / RECORD).write_bytes(b"{}")
        finally:
            shutil.rmtree(trial, ignore_errors=True)


def remove_leftovers(run: Path) -> None:
    """Remove temporary folders that a killed run left among the checkpoints of ``run``."""
    for folder in _leftovers(run):
        _clear(folder)


def _clear(path: Path) -> None:
    """Remove a folder with what is in it, a file or a link, as far as that is possible."""
    if _is_folder(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _leftovers(run: Path) -> Iterator[Path]:
    yield from (run / CHECKPOINTS).glob(".epoch-*tmp*")
