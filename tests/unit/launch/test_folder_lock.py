"""The lock of a run folder: one holder at a time, named to the next; what a dead holder left locks nothing."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
from pathlib import Path

import pytest

from halowire.errors import InputError
from halowire.launch.folder_lock import folder_locked, lock_file, lock_files, lock_shared


def silent(text: str) -> None:
    raise AssertionError(f"an unexpected warning: {text}")


def holder(folder: Path, shared: bool = False) -> int:
    """A process that locks ``folder`` (or shares the lock) until it is killed; returns when it has the lock."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        with lock_shared(folder) if shared else folder_locked(folder, silent):
            os.write(told, b"x")
            signal.pause()
    os.read(ready, 1)
    os.close(ready)
    os.close(told)
    return child


def killed(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def test_the_end_of_the_block_leaves_nothing(tmp_path):
    with folder_locked(tmp_path / "new" / "run", silent):
        assert lock_file(tmp_path / "new" / "run").exists()
    assert list(tmp_path.iterdir()) == [], "neither the lock nor a folder that was made for it"


def test_a_second_holder_is_refused_and_told_who_has_it(tmp_path):
    with folder_locked(tmp_path / "run", silent):
        with (
            pytest.raises(InputError, match=rf"run is in use by process {os.getpid()} on .* choose another --out"),
            folder_locked(tmp_path / "." / "run", silent),
        ):
            raise AssertionError("two holders")
        with folder_locked(tmp_path / "other", silent):
            pass


def test_a_killed_holder_locks_nothing(tmp_path):
    child = holder(tmp_path / "run")
    with pytest.raises(InputError, match=f"in use by process {child} on "), folder_locked(tmp_path / "run", silent):
        raise AssertionError("two holders")
    killed(child)
    assert lock_file(tmp_path / "run").exists(), "the file is left behind"
    with folder_locked(tmp_path / "run", silent):
        assert json.loads(lock_file(tmp_path / "run").read_text())["pid"] == os.getpid()


def test_workers_that_outlive_their_launcher_keep_the_lock(tmp_path):
    launcher = holder(tmp_path / "run")
    worker = holder(tmp_path / "run", shared=True)
    killed(launcher)
    with pytest.raises(InputError, match="is in use by process"), folder_locked(tmp_path / "run", silent):
        raise AssertionError("two holders")
    killed(worker)
    with folder_locked(tmp_path / "run", silent):
        pass


def test_nonsense_in_a_lock_file_does_not_matter(tmp_path):
    lock_file(tmp_path / "run").write_text('{"pid": [')
    with folder_locked(tmp_path / "run", silent):
        pass


def test_left_overs_are_removed_only_under_a_lock(tmp_path, monkeypatch):
    """Where files cannot be locked, a half-written folder may belong to a run that lives on another machine."""
    left = tmp_path / "run" / ".checkpoint.tmp-0123abcd"
    left.mkdir(parents=True)
    warnings: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", cannot_lock)
        with folder_locked(tmp_path / "run", warnings.append):
            assert lock_file(tmp_path / "run").exists(), "others read there who writes"
    assert left.exists() and len(warnings) == 1 and "cannot lock: make sure that no other run" in warnings[0]
    with folder_locked(tmp_path / "run", silent):
        assert not left.exists()


def cannot_lock(handle: int, operation: int) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@pytest.fixture
def fixed_parent(tmp_path, monkeypatch):
    """A folder that may be written to, in a folder that may not; the calls that would write there are refused."""
    run = tmp_path / "fixed" / "run"
    run.mkdir(parents=True)
    system_open = os.open

    def refuse_beside(path, flags, *more, **named):
        if Path(path).parent == run.parent and flags & os.O_CREAT and not Path(path).exists():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return system_open(path, flags, *more, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse_beside)
        yield run


def test_where_the_parent_may_not_be_written_the_lock_lies_inside(fixed_parent):
    with folder_locked(fixed_parent, silent):
        assert json.loads((fixed_parent / ".lock").read_text())["pid"] == os.getpid()
        with pytest.raises(InputError, match="is in use by process"), folder_locked(fixed_parent, silent):
            raise AssertionError("two holders")
    assert list(fixed_parent.parent.rglob("*")) == [fixed_parent]


def test_workers_share_the_lock_that_lies_inside(fixed_parent):
    launcher = holder(fixed_parent)
    worker = holder(fixed_parent, shared=True)
    killed(launcher)
    with pytest.raises(InputError, match="is in use by process"), folder_locked(fixed_parent, silent):
        raise AssertionError("two holders")
    killed(worker)
    with folder_locked(fixed_parent, silent):
        pass


@pytest.mark.parametrize("first_may", [False, True])
def test_users_with_different_rights_see_each_others_locks(fixed_parent, monkeypatch, first_may):
    """One user may write to the parent, and another one only to the folder."""
    beside, inside = lock_files(fixed_parent)
    refusing = os.open
    if first_may:
        beside.write_text("")  # the first of the two makes it: who finds it may lock it
    child = holder(fixed_parent)
    assert inside.exists() is not first_may
    monkeypatch.undo()  # the second one may write everywhere
    if first_may:
        monkeypatch.setattr(os, "open", refusing)  # and here it is the first one
    with pytest.raises(InputError, match=f"process {child} on"), folder_locked(fixed_parent, silent):
        raise AssertionError("two holders")
    killed(child)
    with folder_locked(fixed_parent, silent):
        pass


def test_a_folder_in_which_nothing_may_be_written_is_said_to_be_unlocked(tmp_path, monkeypatch):
    warnings: list[str] = []
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(os, "open", may_not)
    with folder_locked(tmp_path / "run", warnings.append):
        pass
    assert len(warnings) == 1 and "no file may be written beside it or in it" in warnings[0]


def may_not(*args, **named):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_a_pipe_in_the_place_of_a_lock_file_hangs_nobody(tmp_path, monkeypatch):
    """In a folder of all users another user can put one there, which this user may read but not write."""
    os.mkfifo(lock_file(tmp_path / "run"))
    with lock_shared(tmp_path / "run"):
        pass
    opened, real = [], os.open

    def only_read(path: object, flags: int, mode: int = 0o777) -> int:
        opened.append(flags)
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise PermissionError(errno.EACCES, "not yours", str(path))
        return real(path, flags, mode)

    monkeypatch.setattr("halowire.launch.folder_lock.os.open", only_read)
    with folder_locked(tmp_path / "run", silent):
        pass
    assert len(opened) >= 2


def test_a_pipe_that_somebody_has_locked_is_refused_as_in_use(tmp_path):
    path = lock_file(tmp_path / "run")
    os.mkfifo(path)
    handle = os.open(path, os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(InputError, match="in use by another process"), folder_locked(tmp_path / "run", silent):
        pass
    os.close(handle)
