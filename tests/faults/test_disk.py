"""A disk that is full, and folders that are deleted under a run: one line, and what was saved before stays."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from halowire.errors import TrainingError
from halowire.events import EventLog, read_events
from tests.support.started import ENDLESS, TRAIN, ended, start, wait_for_epochs, weights

TWO = (*TRAIN, "--workers", "2", "--checkpoint.every", "5")


def test_events_stop_while_the_disk_is_full_and_say_how_many_are_missing(tmp_path, monkeypatch, capfd):
    log = EventLog(tmp_path, 0)
    log.write("epoch", epoch=0)
    true_write = os.write

    def full(file: int, data: bytes) -> int:
        if len(data) > 8:
            return true_write(file, data[:8])  # a part fits, as on a real disk
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    log.write("epoch", epoch=1)
    log.write("epoch", epoch=2)
    monkeypatch.setattr(os, "write", true_write)
    log.write("epoch", epoch=3)
    log.close()
    found = read_events(tmp_path / "events-0.jsonl")
    assert [event.get("epoch") for event in found if event["event"] == "epoch"] == [0, 3]
    assert [event["missing"] for event in found if event["event"] == "gap"] == [2]
    assert capfd.readouterr().err.count("trains on without writing events") == 1


def test_events_that_were_deleted_end_the_run(tmp_path):
    log = EventLog(tmp_path, 0)
    (tmp_path / "events-0.jsonl").unlink()
    with pytest.raises(TrainingError, match="were deleted while the run wrote them"):
        log.write("epoch", epoch=0)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 16 MB, which only root can make."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", disk], check=False, capture_output=True)
    if made.returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.slow
def test_a_full_disk_is_named_and_the_run_goes_on_when_there_is_room(tmp_path, small_disk):
    run = small_disk / "run"
    process = start(tmp_path, *TWO, *ENDLESS, "--out", str(run))
    wait_for_epochs(run, 12)
    fill(small_disk / "filler")
    code, said = ended(process)
    errors = [line for line in said.splitlines() if not line.startswith("warning: ")]
    assert code == 1 and len(errors) == 1, said
    assert "the disk is full" in errors[0] and "are free" in errors[0] and str(run) in errors[0]
    kept = sorted(path.name for path in (run / "checkpoints").glob("epoch-*"))
    assert kept, "the checkpoint before is there"
    (small_disk / "filler").unlink()
    epochs = str(int(kept[-1].removeprefix("epoch-")) + 10)
    assert ended(start(tmp_path, *TWO, "--epochs", epochs, "--out", str(run), "--resume")) == (0, "")


def fill(file: Path) -> None:
    """Write until nothing is left."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT)
    for size in (1 << 16, 1):
        try:
            while os.write(handle, b"0" * size):
                pass
        except OSError:
            continue
    os.close(handle)


def test_a_deleted_run_folder_ends_the_run_with_one_line(tmp_path):
    process = start(tmp_path, *TWO, *ENDLESS, "--out", "run")
    wait_for_epochs(tmp_path / "run", 7)
    assert weights(tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")
    code, said = ended(process)
    assert code == 1 and said.count("\n") == 1 and "run" in said, said
    assert "deleted" in said or "gone" in said, said


def test_the_cause_is_told_when_the_launcher_cannot_be(tmp_path):
    """Where the folder of temporary files is full, a worker cannot leave its message for the launcher there."""
    words = [sys.executable, "-m", "halowire.worker", "train", str(tmp_path / "run")]
    place = {"TORCHELASTIC_ERROR_FILE": str(tmp_path / "gone" / "error.json")}
    done = subprocess.run(words, env=os.environ | place, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: ") and "is not a run folder" in done.stderr
