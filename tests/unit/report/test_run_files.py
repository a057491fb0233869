"""Reading run folders, whole and damaged, and files of events that are still being written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from halowire.errors import InputError
from halowire.report import read_run, series
from halowire.report.run_files import last_epoch


def test_a_repeated_epoch_counts_as_it_went_the_last_time(run: Path) -> None:
    with (run / "events-0.jsonl").open("a") as file:
        file.write(json.dumps({"event": "epoch", "epoch": 5, "loss": 42.0}) + "\n")
    assert dict(series.losses(read_run(run)))[5] == 42.0


@pytest.mark.parametrize("make", [False, True])
def test_what_is_no_run_folder_is_refused(tmp_path: Path, make: bool) -> None:
    folder = tmp_path / "nothing"
    if make:
        folder.mkdir()
    with pytest.raises(InputError, match="halowire train --out"):
        read_run(folder)


def test_the_newest_epoch_of_a_file_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "events-0.jsonl"
    assert last_epoch(path) is None
    path.write_text('{"event":"start","time":1}\n')
    assert last_epoch(path) is None
    lines = [json.dumps({"event": "epoch", "epoch": epoch, "much": "x" * 500}) for epoch in range(100)]
    path.write_text("\n".join(lines) + '\n{"event":"epoch","epo')
    assert last_epoch(path) == 99
    path.write_text("\n".join([*lines, '{"event":"end","status":"finished"}']) + "\n")
    assert last_epoch(path) == 99
