"""Output that was closed is nothing, and no error."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from halowire.output import flush_output, prepare_output


def test_closed_output_is_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    flush_output()
    prepare_output()
    print("nobody reads this")
    flush_output()
    sys.stdout.close()


def test_a_stream_that_ended_is_not_flushed(monkeypatch):
    ended = io.StringIO()
    ended.close()
    monkeypatch.setattr(sys, "stdout", ended)
    flush_output()


def test_a_full_disk_behind_the_output_is_no_error():
    script = "import sys; from halowire.output import flush_output; sys.stdout.write('x'); flush_output()"
    with Path("/dev/full").open("w") as full:
        said = subprocess.run(
            [sys.executable, "-c", script], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert "flush_output" not in said.stderr


@pytest.mark.parametrize(("words", "code"), [(["--help"], 1), (["--version"], 1), ([], 2)])
def test_words_that_nobody_can_read_end_without_a_traceback(words, code):
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "halowire", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == code
    assert code == 2 or ended.stderr == "halowire: error: no space left on device\n"


def test_a_deleted_working_folder_is_one_line(tmp_path):
    script = "import os, sys; os.rmdir(os.getcwd()); from halowire.cli.main import main; sys.exit(main(['doctor']))"
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    words = "halowire: error: the working folder is gone: it was deleted or moved; change to another one\n"
    assert (ended.returncode, ended.stderr) == (2, words)
