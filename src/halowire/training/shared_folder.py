"""Which workers see the same run folder: those of one machine, or of all machines that share a file system.

One worker of each folder is its keeper, which publishes and removes checkpoints there.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from halowire.errors import InputError, TrainingError, system_error
from halowire.events import SETUP
from halowire.files import written_to
from halowire.training.checkpoint import refuse_unwritable
from halowire.training.telling import agreed, gather_words
from halowire.wire import Transport

WHERE = "search for shared folders"
NAME = ".keeper-"


@dataclass(frozen=True)
class SharedFolder:
    """The workers that share this worker's run folder.

    Attributes:
        ranks: these workers, this one included, in ascending order.
        keeper: whether this worker is the first of them.
        start: a name for this start of the run, the same on all workers of all folders.
    """

    ranks: tuple[int, ...]
    keeper: bool
    start: str

    @staticmethod
    def find(run: Path, transport: Transport) -> SharedFolder:
        """Find the workers that share the folder ``run`` of this worker; all workers call this together.

        Before that, every worker tries whether it can save there.

        The first worker that creates a file of an agreed name writes its rank to it; all who share the folder read it.
        """
        start = transport.broadcast_bytes(secrets.token_hex(4).encode(), WHERE).decode()
        mark, words, mine = run / f"{NAME}{start}", "", True
        try:
            refuse_unwritable(run, transport.rank)
            mine = transport.size == 1 or _create(mark, transport.rank)
        except OSError as error:
            words = system_error(error)
        except InputError as error:
            words = str(error)
        try:
            refuse_failed(words, transport, WHERE)
        except TrainingError:
            mark.unlink(missing_ok=True)
            raise
        if transport.size == 1:
            return SharedFolder((0,), True, start)
        owners = torch.zeros(transport.size, dtype=torch.int64)
        owners[transport.rank] = transport.rank if mine else int(mark.read_text())
        transport.all_reduce(owners, WHERE, SETUP)
        if mine:
            mark.unlink(missing_ok=True)  # the keeper may have removed it with older ones
        ranks = (owners == owners[transport.rank]).nonzero()[:, 0].tolist()
        return SharedFolder(tuple(ranks), ranks[0] == transport.rank, start)

    def remove_marks(self, run: Path) -> None:
        """Remove marks that earlier starts, which were killed at once, left in ``run``."""
        for mark in run.glob(f"{NAME}*") if self.keeper else ():
            with suppress(OSError):
                mark.unlink()


def sees_first(run: Path, transport: Transport) -> bool:
    """Whether the folder ``run`` of this worker is that of rank 0, which exists; all workers call this together."""
    start = transport.broadcast_bytes(secrets.token_hex(4).encode(), WHERE).decode()
    mark, first = run / f"{NAME}{start}", transport.rank == 0
    agreed(lambda: _create(mark, 0) if first else False, transport, WHERE)
    seen = mark.exists()
    transport.barrier(WHERE)
    if first:
        mark.unlink(missing_ok=True)
    return seen


def refuse_failed(words: str, transport: Transport, where: str) -> None:
    """Raise, on all workers, what the first worker has to say that failed; all workers call this together."""
    told = [text for text in gather_words(words, transport, where) if text]
    if told:
        raise TrainingError(told[0])


def _create(mark: Path, rank: int) -> bool:
    """Create the file with this worker's rank; False if another worker did so before."""
    try:
        with written_to(mark.parent):
            handle = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    with written_to(mark.parent), os.fdopen(handle, "w") as file:
        file.write(str(rank))
    return True
