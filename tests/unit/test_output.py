"""Output that was closed is nothing, and no error."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

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
