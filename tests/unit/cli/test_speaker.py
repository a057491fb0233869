"""Of the workers of a machine one prints what all have to say: under torchrun the first to come, else the first."""

from __future__ import annotations

import pytest

from halowire.cli.speaker import speaks_for_all
from halowire.errors import ERROR_FILE


def test_under_torchrun_the_first_to_come_speaks_once_for_each_message(tmp_path, monkeypatch):
    said = []
    for rank in (1, 0, 2):
        (tmp_path / str(rank)).mkdir()
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        monkeypatch.setenv(ERROR_FILE, str(tmp_path / str(rank) / "error.json"))
        said.append((speaks_for_all("a flag is wrong"), speaks_for_all(f"rank {rank} refuses")))
    assert said == [(True, True), (False, True), (False, True)]


@pytest.mark.parametrize("folder", [None, "gone/attempt/0/error.json"])
def test_without_a_folder_that_they_share_the_first_by_number_speaks(tmp_path, monkeypatch, folder):
    monkeypatch.delenv(ERROR_FILE, raising=False)
    if folder:
        monkeypatch.setenv(ERROR_FILE, str(tmp_path / folder))
    found = []
    for rank in ("1", "0"):
        monkeypatch.setenv("LOCAL_RANK", rank)
        found.append(speaks_for_all("a flag is wrong"))
    assert found == [False, True]
