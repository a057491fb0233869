"""A run that cannot save is refused before its first epoch, on all workers, in one line."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from halowire.errors import TrainingError
from halowire.training.checkpoint import CHECKPOINTS
from halowire.training.shared_folder import SharedFolder
from halowire.wire import Transport, run_threads


@pytest.mark.parametrize("workers", [1, 2])
def test_a_folder_that_can_be_written_has_room_for_checkpoints(tmp_path, workers):
    found = run_threads(workers, lambda transport: SharedFolder.find(tmp_path, transport))
    assert [folder.keeper for folder in found] == [True, False][:workers]
    assert [path.name for path in tmp_path.rglob("*")] == [CHECKPOINTS], "no trial is left"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_in_the_place_of_the_checkpoints_is_named(tmp_path, workers):
    (tmp_path / CHECKPOINTS).write_text("mine")

    def refused(transport: Transport) -> None:
        with pytest.raises(TrainingError, match=r"checkpoints is a file, but the run saves .* choose another --out"):
            SharedFolder.find(tmp_path, transport)

    run_threads(workers, refused)
    assert (tmp_path / CHECKPOINTS).read_text() == "mine"


def test_checkpoints_that_one_worker_may_not_write_are_refused_by_all(tmp_path, monkeypatch):
    make = Path.mkdir

    def refusing(path, *args, **named):
        if path.name.endswith("tmp-1"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        make(path, *args, **named)

    monkeypatch.setattr(Path, "mkdir", refusing)

    def refused(transport: Transport) -> None:
        with pytest.raises(TrainingError, match=r"checkpoints: permission denied; choose a folder that you may write"):
            SharedFolder.find(tmp_path, transport)

    run_threads(2, refused)
    assert [path.name for path in tmp_path.rglob("*")] == [CHECKPOINTS]
