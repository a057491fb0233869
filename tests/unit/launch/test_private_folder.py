"""Private folders are entered by nobody else, and do not stay when their owner was killed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from halowire.launch import private_folder
from halowire.launch.private_folder import remove_abandoned

OWNER = """
import subprocess, sys
from halowire.launch import private_folder
with private_folder() as folder:
    heir = subprocess.Popen(["sleep", "60"], pass_fds=[folder.lock]) if sys.argv[1:] else None
    print(folder.path, heir.pid if heir else 0, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def killed_owner(*words: str) -> tuple[Path, int]:
    """The folder of a process that was killed, and the id of a process that inherited the folder (0: none)."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", OWNER, *words], text=True, **pipes) as process:
        path, heir = process.stdout.readline().split()
        remove_abandoned()
        assert Path(path).exists(), "its owner lives"
        process.kill()
    return Path(path), int(heir)


def test_only_this_user_enters_and_the_end_removes_it():
    with private_folder() as folder:
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        (folder.path / "file").touch()
    assert not folder.path.exists()


def test_two_at_once_do_not_disturb_each_other():
    with private_folder() as one, private_folder() as other:
        remove_abandoned()
        assert one.path.exists() and other.path.exists() and one.path != other.path


def test_what_a_killed_program_left_is_removed_by_the_next_start():
    path, _ = killed_owner()
    assert path.exists()
    with private_folder():
        assert not path.exists()


def test_what_a_worker_still_uses_stays():
    path, heir = killed_owner("heir")
    remove_abandoned()
    assert path.exists(), "the launcher is dead, but its worker is still at its last epoch"
    os.kill(heir, signal.SIGKILL)
    end = time.monotonic() + 10
    while path.exists() and time.monotonic() < end:
        remove_abandoned()
        time.sleep(0.01)
    assert not path.exists(), "nobody uses it any more"


def test_folders_of_others_are_left_alone(tmp_path):
    (tmp_path / "halowire-of-a-benchmark").mkdir()
    (tmp_path / "halowire-file").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "in-use").touch()
    (tmp_path / "halowire-link").symlink_to(tmp_path / "elsewhere")
    remove_abandoned()
    assert {path.name for path in tmp_path.iterdir()} >= {"halowire-of-a-benchmark", "halowire-file", "elsewhere"}
    assert (tmp_path / "elsewhere" / "in-use").exists()
