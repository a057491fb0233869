"""Files and folders are written whole or not at all."""

from __future__ import annotations

import json

import pytest

from halowire.files import folder_written_whole, write_json, write_text, written_whole


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
