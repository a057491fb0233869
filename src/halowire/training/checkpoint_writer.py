"""Checkpoints are written behind the computation: the run waits for copies of its state, not for the disk.

While the next epoch runs, a thread of every worker writes its files to a temporary folder. Threads do not talk to other
workers: the sums of that epoch's gradients carry whether some worker's thread is still at work, for which all wait, or
has failed, which ends the run. While the epoch after it runs, the keeper of each folder completes and renames it.
Whatever happens before that leaves no checkpoint, and the one before it stays.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from halowire.errors import TrainingError, in_one_line, system_error
from halowire.files import write_synced, written_to
from halowire.training.checkpoint import (
    Entry,
    Manifest,
    folder_of,
    keep_newest,
    publish,
    remove_checkpoint,
    remove_leftovers,
    saved,
)
from halowire.training.shared_folder import SharedFolder
from halowire.training.telling import gather_bytes, gather_words
from halowire.training.tensor_image import TensorImage
from halowire.wire import Transport

WHERE = "publication of a checkpoint"
ENTRIES = 512
"""Bytes for the entries of one worker's files, at most three, as JSON."""
NICE = 5
"""How far the threads that write give way; not further, or on a machine with other work they would not get on."""
Content = Mapping[str, Tensor] | bytes
"""What a file holds: tensors, for a safetensors file, or its bytes."""


@dataclass(frozen=True)
class _Save:
    """A checkpoint under way: its facts (a manifest without files), its temporary folder, this worker's entries."""

    facts: Manifest
    temporary: Path
    entries: dict[str, Entry]


class CheckpointWriter:
    """Writes this worker's files of checkpoints; all workers call every method together.

    Attributes:
        damaged: checkpoints that were found damaged, with the reasons; they are removed when a new one is published.
    """

    def __init__(self, run: Path, transport: Transport, keep: int) -> None:
        self.damaged: dict[str, str] = {}
        self._run = run
        self._transport = transport
        self._keep = keep
        self._folder: SharedFolder | None = None
        self._images: dict[str, TensorImage] = {}
        self._thread = ThreadPoolExecutor(1, "halowire-checkpoint", _give_way)
        self._jobs: list[Future[None]] = []
        self._save: _Save | None = None
        self._published = False

    @property
    def folder(self) -> SharedFolder:
        """The workers that share this worker's run folder; found at the first use, when left-overs are removed too."""
        if self._folder is None:
            self._folder = SharedFolder.find(self._run, self._transport)
            if self._folder.keeper:
                self._folder.remove_marks(self._run)
                remove_leftovers(self._run)
        return self._folder

    def notes(self) -> tuple[float, float]:
        """What the other workers must know: whether this worker's thread is still at work, and whether it failed."""
        busy = any(not job.done() for job in self._jobs)
        return float(busy), float(self._error() is not None)

    def begin(self, epoch: int, settings: dict[str, Any], files: Mapping[str, Content], wire: bool) -> None:
        """Copy the content of this worker's ``files``, and have it written while the run goes on."""
        assert self._save is None, "one checkpoint after the other"
        facts = Manifest(epoch, f"{self.folder.start}-{epoch}", wire, settings, {})
        final = folder_of(self._run, epoch)
        self._save = _Save(facts, final.with_name(f".{final.name}.tmp-{self.folder.start}"), {})
        copies = {name: self._copy(name, content) for name, content in files.items()}
        if copies:
            self._do(partial(_write, self._save, copies))

    def advance(self, busy: float, failed: float) -> None:
        """Take the next step, given the sums of all workers' :meth:`notes`; raises what failed, on all workers.

        A thread that is still at work is waited for: a checkpoint is never further behind than the next epoch.
        """
        if busy and not failed:
            wait(self._jobs)
            failed = float(self._transport.all_reduce(torch.tensor([self.notes()[1]]), WHERE, account=None))
        if failed:
            self._fail()
        self._jobs.clear()
        if self._published and self.folder.keeper:
            self._do(partial(keep_newest, self._run, self._keep, dict(self.damaged)))
        self._published = False
        if self._save is not None:
            self._publish(self._save)
            self._save = None

    def finish(self) -> None:
        """Wait until what was begun is published on all disks, and old checkpoints are removed."""
        while self._save is not None or self._published:
            self.advance(1.0, 0.0)
        wait(self._jobs)

    def drop(self, epoch: int) -> None:
        """Remove the checkpoint after ``epoch`` epochs from all disks if there is one before it."""
        self.finish()
        last = folder_of(self._run, epoch)
        wanted = [folder for folder in saved(self._run) if folder.name not in self.damaged]
        flag = torch.tensor([float(len(wanted) > 1 and wanted[0] == last)])
        if self._transport.broadcast(flag, "removal of a checkpoint") and self.folder.keeper:
            remove_checkpoint(last)
        self._transport.barrier("removal of a checkpoint")

    def _copy(self, name: str, content: Content) -> bytes | memoryview:
        if isinstance(content, bytes):
            return content
        return self._images.setdefault(name, TensorImage()).take(content)

    def _do(self, job: Callable[[], None]) -> None:
        self._jobs.append(self._thread.submit(job))

    def _publish(self, save: _Save) -> None:
        """Let the keeper of each folder complete it with the entries of all its workers, and rename it."""
        files = self._entries_of_all(save) if save.facts.wire else save.entries
        self._published = True
        final = folder_of(self._run, save.facts.epoch)
        self.damaged.pop(final.name, None)
        if self.folder.keeper and files:
            manifest = Manifest(**(vars(save.facts) | {"files": files}))
            self._do(partial(_put_in_place, save.temporary, final, manifest))

    def _entries_of_all(self, save: _Save) -> dict[str, Entry]:
        """The entries of all workers that share this folder; without a wire that remembers, only rank 0 has some."""
        mine = {name: [entry.size, entry.crc32] for name, entry in save.entries.items()}
        told = gather_bytes(json.dumps(mine).encode(), ENTRIES, self._transport, WHERE)
        here = [json.loads(told[rank].rstrip(b"\0")) for rank in self.folder.ranks]
        return {name: Entry(*entry) for entries in here for name, entry in entries.items()}

    def _error(self) -> BaseException | None:
        return next((error for job in self._jobs if job.done() and (error := job.exception()) is not None), None)

    def _fail(self) -> None:
        """Raise the error of the first worker that failed to write, on all workers."""
        wait(self._jobs)
        error = self._error()
        words = system_error(error) if isinstance(error, OSError) else "" if error is None else in_one_line(error)
        if self._save is not None:
            shutil.rmtree(self._save.temporary, ignore_errors=True)
        told = [text for text in gather_words(words, self._transport, WHERE) if text]
        raise TrainingError(told[0]) from error


def _give_way() -> None:
    """Let this thread run after those that compute, where they want the same core; Linux does so for one thread."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _write(save: _Save, copies: Mapping[str, bytes | memoryview]) -> None:
    """Write this worker's files; when this returns they are on the disk."""
    checkpoints = save.temporary.parent
    with written_to(checkpoints, sum(map(len, copies.values()))):
        # Not its parents: the run folder exists, unless it was deleted, which is an error.
        checkpoints.mkdir(exist_ok=True)
        save.temporary.mkdir(exist_ok=True)
        save.entries.update({name: Entry.of(data) for name, data in copies.items()})
        write_synced(save.temporary, copies)


def _put_in_place(temporary: Path, final: Path, manifest: Manifest) -> None:
    with written_to(final.parent):
        publish(temporary, final, manifest)
