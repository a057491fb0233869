"""Machines that disagree: every difference is printed, both end with exit code 2, nothing is trained or deleted."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from halowire.launch import folder_locked
from halowire.training import set_aside

GRAPH = "sbm:nodes=200,edges=800,features=8,classes=3"
FLAGS = ("--epochs", "2", "--model.hidden", "8", "--threads", "1", "--quiet", "--deadline", "60")


def on_two_machines(tmp_path: Path, *flags: tuple[str, ...]) -> list[tuple[int, str]]:
    """Exit code and standard error of ``halowire train``, started by hand on each machine with its own ``flags``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = []
    for rank, own in enumerate(flags):
        place = {"RANK": f"{rank}", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}", "OMP_NUM_THREADS": "1"}
        place |= {"HALOWIRE_TOKEN": "a secret of sixteen letters"}
        command = [sys.executable, "-m", "halowire", "train", GRAPH, *FLAGS, "--out", str(tmp_path / f"{rank}"), *own]
        started.append(subprocess.Popen(command, env=os.environ | place, stderr=subprocess.PIPE, text=True))
    try:
        said = [process.communicate(timeout=90)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    return [(process.returncode, text) for process, text in zip(started, said, strict=True)]


def test_different_flags_are_refused_and_nothing_is_deleted(tmp_path):
    same = on_two_machines(tmp_path, ("--threads", "1"), ("--deadline", "50"))
    assert [code for code, _ in same] == [0, 0], same
    summary = (tmp_path / "0" / "summary.json").read_text()
    mine = ("--overwrite", "--optim.lr", "0.02", "--model.dropout", "0.25")
    theirs = ("--overwrite", "--seed", "5", "--optim.weight-decay", "0.1")
    for code, said in on_two_machines(tmp_path, mine, theirs):
        assert code == 2
        assert "the workers disagree: " in said and "Traceback" not in said
        assert "optim.lr is 0.02 on rank 0 and 0.01 on rank 1" in said
        assert "model.dropout is 0.25 on rank 0 and 0.5 on rank 1" in said
        assert "seed is 0 on rank 0 and 5 on rank 1" in said
        assert "optim.weight_decay is 0.0 on rank 0 and 0.1 on rank 1" in said
    assert (tmp_path / "0" / "summary.json").read_text() == summary
    assert json.loads((tmp_path / "0" / "config.json").read_text())["seed"] == 0


@pytest.mark.slow
def test_a_machine_that_has_equal_shards_locks_its_folder_and_brings_back_what_was_set_aside(tmp_path):
    same = on_two_machines(tmp_path, (), ())
    assert [code for code, _ in same] == [0, 0], same
    assert (tmp_path / "1" / "config.json").exists()
    set_aside(tmp_path / "1", shards=True)  # as a start that was killed leaves it
    with folder_locked(tmp_path / "1", print):
        for code, said in on_two_machines(tmp_path, ("--overwrite",), ("--overwrite",)):
            assert code == 2 and f"1 is in use by process {os.getpid()}" in said, said
    assert (tmp_path / "0" / "summary.json").exists() and (tmp_path / "0" / "checkpoints").exists()
    again = on_two_machines(tmp_path, ("--overwrite",), ("--overwrite",))
    assert [code for code, _ in again] == [0, 0], again
    assert not list((tmp_path / "1").glob(".earlier-run*")) and not list(tmp_path.glob(".*"))


def test_machines_that_share_a_folder_prepare_it_once(tmp_path):
    one = "--out", str(tmp_path / "both")
    assert [code for code, _ in on_two_machines(tmp_path, one, one)] == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["both"] and not list((tmp_path / "both").glob(".*"))


def test_a_machine_without_a_gpu_stops_the_others_at_once(tmp_path):
    for code, said in on_two_machines(tmp_path, ("--device", "cpu"), ("--device", "cuda")):
        assert code == 2
        assert said.splitlines() == [
            "halowire: error: rank 1 cannot start (cpu on rank 0; nothing it may use on rank 1): --device cuda needs a "
            "GPU for every worker here (1), but torch sees 0; use --device cpu"
        ]
    assert not any((tmp_path / folder).exists() for folder in ("0", "1"))
