"""Two runs in one folder, and what kill -9 leaves behind: the second run is refused, a dead one hinders nobody."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.started import ENDLESS, TRAIN, children, ended, start, wait_for_epochs, wait_until_gone, weights

TWO = (*TRAIN, "--workers", "2", "--out", "run", "--checkpoint.every", "5")


@pytest.mark.slow
def test_a_second_run_is_refused_and_a_killed_one_leaves_nothing_that_hinders(tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    first = start(tmp_path, *TWO, *ENDLESS)
    wait_for_epochs(tmp_path / "run", 12)
    code, said = ended(start(tmp_path, *TWO, *ENDLESS, "--overwrite"))
    assert code == 2 and said.count("\n") == 1, said
    assert f"run is in use by process {first.pid} on " in said and "choose another --out" in said
    assert first.poll() is None and weights(tmp_path / "run"), "the first run does not mind"

    workers = children(first)
    for process in (first.pid, *workers):
        os.kill(process, signal.SIGKILL)
    wait_until_gone(workers)
    first.communicate()
    assert list(temporary.glob("halowire-*")) and (tmp_path / ".run.lock").exists(), "kill -9 leaves what it must"
    code, said = ended(start(tmp_path, *TWO, "--epochs", "100", "--resume"))
    assert (code, said) == (0, "")
    assert not list(temporary.glob("halowire-*")) and not (tmp_path / ".run.lock").exists()
    assert not [path for path in (tmp_path / "run").rglob("*") if path.name.startswith(".")]
