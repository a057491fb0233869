"""Files and folders are written whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from pathlib import Path

import pytest
import torch

from halowire.files import (
    BLOCK,
    LARGE,
    folder_written_whole,
    remove_unfinished,
    write_json,
    write_synced,
    write_text,
    written_whole,
)


def test_a_file_is_replaced_at_once(tmp_path):
    target = tmp_path / "a.txt"
    write_text(target, "old")
    with written_whole(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new" and list(tmp_path.iterdir()) == [target]


def test_a_failed_file_leaves_nothing_behind(tmp_path):
    target = tmp_path / "a.txt"
    write_text(target, "old")
    with pytest.raises(RuntimeError), written_whole(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


def test_a_file_larger_than_a_limit_is_named_with_its_folder(tmp_path):
    words = "may not become so large, about 2.00 KiB are needed"
    with pytest.raises(OSError, match=re.escape(words)) as found, written_whole(tmp_path / "a.txt", 2048):
        raise OSError(errno.EFBIG, "File too large")
    assert found.value.filename == str(tmp_path) and list(tmp_path.iterdir()) == []


def test_json_holds_finite_numbers_only(tmp_path):
    write_json(tmp_path / "a.json", {"a": [1, "é"]})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"a": [1, "é"]}
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "b.json", {"a": float("nan")})
    assert not (tmp_path / "b.json").exists()


@pytest.mark.parametrize("before", [None, "old"])
def test_a_folder_takes_its_place_when_it_is_full(tmp_path, before):
    target = tmp_path / "deep" / "folder"
    if before:
        target.mkdir(parents=True)
        (target / before).touch()
    with folder_written_whole(target) as temporary:
        (temporary / "new").touch()
        assert target.exists() == bool(before)
    assert [path.name for path in target.iterdir()] == ["new"] and list(target.parent.iterdir()) == [target]


def test_a_failed_folder_leaves_the_old_one(tmp_path):
    target = tmp_path / "folder"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(KeyboardInterrupt), folder_written_whole(target) as temporary:
        (temporary / "new").touch()
        raise KeyboardInterrupt
    assert [path.name for path in target.iterdir()] == ["old"] and list(tmp_path.iterdir()) == [target]


def aligned(size: int, extra: int) -> memoryview:
    """Random bytes that begin ``extra`` bytes after a block of memory does."""
    memory = torch.randint(0, 256, (size + 2 * BLOCK,), dtype=torch.uint8)
    start = -memory.data_ptr() % BLOCK + extra
    return memory[start : start + size].numpy().data


@pytest.mark.parametrize("size", [0, 5, LARGE - 1, LARGE, LARGE + BLOCK, LARGE + BLOCK + 7])
def test_synced_files_hold_every_byte_wherever_they_begin_and_end(tmp_path, size):
    contents = {"even": aligned(size, 0), "odd": aligned(size, 1), "bytes": bytes(aligned(size, 0)), "small": b"abc"}
    (tmp_path / "even").write_bytes(b"x" * (size + 1))  # a longer file of before leaves nothing
    write_synced(tmp_path, contents)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        name: bytes(data) for name, data in contents.items()
    }


@pytest.mark.parametrize("refused", [True, False])
def test_a_file_system_that_wants_its_cache_or_takes_odd_pieces_gets_every_byte(tmp_path, monkeypatch, refused):
    data, true_write, true_fcntl = aligned(LARGE + 9, 0), os.write, fcntl.fcntl

    def no_direct(handle, command, *values):
        if refused and command == fcntl.F_SETFL:
            raise OSError(22, "no")
        return true_fcntl(handle, command, *values)

    def in_pieces(handle, piece):
        return true_write(handle, piece[: 3 * BLOCK] if len(piece) % BLOCK == 0 else piece[:1000])

    monkeypatch.setattr(fcntl, "fcntl", no_direct)
    monkeypatch.setattr(os, "write", in_pieces)
    write_synced(tmp_path, {"a": data})
    assert Path(tmp_path, "a").read_bytes() == bytes(data)


def test_all_files_are_written_before_the_first_is_waited_for(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", lambda handle: done.append(sorted(path.name for path in tmp_path.iterdir())))
    write_synced(tmp_path, {"a": b"1", "b": b"2"})
    assert done == [["a", "b"]] * 2


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path):
    run = tmp_path / "run"
    for name in (
        ".shards.tmp-0123abcd",
        ".shards.tmp-0123abcd.previous",
        "shards",
        "checkpoints/.epoch-4.tmp-0123abcd",
    ):
        (run / name).mkdir(parents=True)
        (run / name / "file").touch()
    mine = {".notes.tmp", ".shards.tmp-mine", "shards.tmp-0123abcd", ".run.lock"}
    for name in mine | {".config.0123abcd.tmp.json", ".plain.0123abcd.tmp"}:
        (run / name).touch()
    (tmp_path / ".run.tmp-89abcdef").mkdir()
    (tmp_path / ".other.tmp-89abcdef").mkdir()
    remove_unfinished(run)
    assert {path.name for path in run.iterdir()} == mine | {"shards", "checkpoints"}
    assert (run / "checkpoints/.epoch-4.tmp-0123abcd/file").exists(), "these belong to the workers"
    assert {path.name for path in tmp_path.iterdir()} == {"run", ".other.tmp-89abcdef"}


def test_a_folder_that_lost_its_name_in_a_kill_gets_it_back(tmp_path):
    (tmp_path / ".shards.tmp-0123abcd.previous").mkdir()
    (tmp_path / ".shards.tmp-0123abcd.previous" / "old").touch()
    (tmp_path / ".shards.tmp-0123abcd").mkdir()
    remove_unfinished(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["shards", "shards/old"]


@pytest.mark.parametrize("missing", ["run", "deep/run"])
def test_a_folder_that_does_not_exist_holds_nothing_unfinished(tmp_path, missing):
    remove_unfinished(tmp_path / missing)
    assert not list(tmp_path.iterdir())


def test_the_names_of_writers_are_recognised(tmp_path):
    gone = pytest.raises(FileNotFoundError)
    with gone, folder_written_whole(tmp_path / "shards") as folder, written_whole(tmp_path / "a.json") as file:
        file.touch()
        remove_unfinished(tmp_path)
        assert not file.exists() and not folder.exists()
