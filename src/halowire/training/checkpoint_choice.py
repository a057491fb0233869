"""Which checkpoint is read: the newest that is whole; a damaged one is skipped with a line, and the one before serves.

All workers of a run agree on it. Rank 0 reads the shared state and tells what it found; a worker whose own file is
damaged, on whatever machine, makes all of them skip the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load

from halowire.errors import InputError
from halowire.training.checkpoint import RECORD, STATE, DamagedError, Manifest, Tensors, read_file, saved, wire_file
from halowire.training.telling import gather_words
from halowire.wire import Transport

WHERE = "choice of the checkpoint"
Warn = Callable[[str], None]


@dataclass(frozen=True)
class Found:
    """A whole checkpoint: what its manifest says, the shared files (on rank 0), and this worker's own file.

    Attributes:
        skipped: newer checkpoints that are damaged, with the reasons.
        wire: empty where no worker has such a file, and where the run had another number of workers.
    """

    manifest: Manifest
    record: bytes = b""
    state: bytes = b""
    wire: bytes = b""
    skipped: dict[str, str] = field(default_factory=dict)


def find_checkpoint(run: Path, transport: Transport, warn: Warn) -> Found | None:
    """The newest checkpoint that is whole for all workers, or None if there is none at all.

    All workers call this together. Raises an error if all checkpoints are damaged.
    """
    names = json.loads(transport.broadcast_bytes(json.dumps([path.name for path in saved(run)]).encode(), WHERE))
    folders = [run / "checkpoints" / name for name in names]
    return _newest_whole(run, folders, lambda folder: _read_together(folder, transport), warn)


def best_weights(run: Path, warn: Warn = lambda text: None) -> bytes:
    """The file with the weights of the newest checkpoint whose shared files are whole; see :func:`parse_weights`."""
    found = _newest_whole(run, saved(run), _read_alone, warn)
    if found is None:
        raise InputError(f"run {run} has no checkpoint; train it first with `halowire train ... --out {run}`")
    return found.state


def parse_weights(state: bytes) -> Tensors:
    """The weights with the best validation result in a checkpoint; without an evaluation, its own weights."""
    tensors = parse_tensors(state)
    return under(tensors, "best.") or under(tensors, "model.")


def parse_tensors(data: bytes) -> Tensors:
    """The tensors in the bytes of a safetensors file, whose checksum was right, in the order of their names.

    The library gives them in another order in every process; workers that go through them together need one order.
    """
    try:
        return dict(sorted(load(data).items()))
    except SafetensorError as error:
        raise InputError(f"the checkpoint holds tensors that cannot be read ({error}); train anew") from None


def under(tensors: Tensors, prefix: str) -> Tensors:
    """The tensors whose names begin with ``prefix``, under their names without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _newest_whole(run: Path, folders: Iterable[Path], read: Callable[[Path], Found], warn: Warn) -> Found | None:
    skipped: dict[str, str] = {}
    for folder in folders:
        try:
            found = read(folder)
        except DamagedError as error:
            skipped[folder.name] = str(error)
            warn(f"checkpoint {folder} is skipped: {error}")
            continue
        found.skipped.update(skipped)
        return found
    if skipped:
        reasons = "; ".join(f"{name}: {why}" for name, why in skipped.items())
        raise InputError(
            f"no checkpoint of {run} is whole ({reasons}); nothing was changed: put the files back from a copy, or "
            "train into a new folder"
        )
    return None


def _read_alone(folder: Path) -> Found:
    """The shared files of a checkpoint."""
    manifest = Manifest.read(folder)
    return Found(manifest, read_file(folder, manifest, RECORD), read_file(folder, manifest, STATE))


def _read_together(folder: Path, transport: Transport) -> Found:
    """Read a checkpoint on all workers; raises on all of them where it is damaged for one."""
    words, found = "", None
    if transport.rank == 0:
        try:
            found = _read_alone(folder)
        except DamagedError as error:
            words = str(error)
    shared = transport.broadcast_bytes(b"" if found is None else found.manifest.to_bytes(), WHERE)
    if not shared:
        raise DamagedError(transport.broadcast_bytes(words.encode(), WHERE).decode())
    manifest = Manifest.parse(json.loads(shared))
    found = found or Found(manifest)
    try:
        found = Found(manifest, found.record, found.state, _own_file(folder, manifest, transport))
    except DamagedError as error:
        words = str(error)
    told = gather_words(words, transport, WHERE)
    if any(told):
        raise DamagedError("; ".join(_by_rank(told)))
    return found


def _own_file(folder: Path, shared: Manifest, transport: Transport) -> bytes:
    """What the wire of this worker remembered, read beside a manifest that must belong to rank 0's, ``shared``."""
    if not shared.wire or shared.settings.get("workers") != transport.size:
        return b""
    mine = Manifest.read(folder)
    if mine.save != shared.save:
        raise DamagedError("it was not written together with rank 0's")
    return read_file(folder, mine, wire_file(transport.rank))


def _by_rank(told: list[str]) -> Iterator[str]:
    several = len(told) > 1
    yield from (f"{words} (rank {rank})" if several else words for rank, words in enumerate(told) if words)
