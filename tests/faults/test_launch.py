"""Ways to start workers: torchrun, by hand on two machines, from Python without a guard; one error line in each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from halowire.cli.main import main
from tests.support.started import GRAPH, SETTINGS, STAGES, TORCHRUN, TRAIN, ended, free_port, start

SCRIPT = f"""
import asyncio, signal, threading
import halowire

def train(out):
    settings = {{"epochs": 3, "model.hidden": 8, "threads": 1}}
    return halowire.train({GRAPH!r}, 2, out=out, settings=settings, quiet=True)

async def notebook():
    return train("loop")

before = signal.getsignal(signal.SIGINT)
run = asyncio.run(notebook())
assert signal.getsignal(signal.SIGINT) is before
thread = threading.Thread(target=train, args=("thread",))
thread.start()
thread.join()
print(halowire.predict(run, "out.npy"))
"""


def test_a_damaged_part_is_one_line_whichever_worker_meets_it(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["partition", GRAPH, "--parts", "2", "--out", "shards", "--quiet"]) == 0
    shutil.rmtree("shards/part-1")
    capfd.readouterr()
    assert main(["train", "shards", *SETTINGS, "--out", "run"]) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "part-1" in said and "missing" in said


def test_torchrun(tmp_path):
    code, _ = ended(start(tmp_path, *TRAIN, "--epochs", "3", "--out", "run", launcher=TORCHRUN))
    assert code == 0 and (tmp_path / "run/report.html").exists()


@pytest.mark.slow
def test_stages_under_torchrun(tmp_path):
    code, said = ended(start(tmp_path, *STAGES, "--epochs", "3", "--out", "run", launcher=TORCHRUN), 150)
    assert code == 0, said
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["mesh"] == {"stages": 2, "parts": 1, "chunks": 8} and summary["epochs"] == 3
    assert (tmp_path / "run/report.trace.json").exists()


@pytest.mark.slow
def test_torchrun_says_an_error_once(tmp_path):
    for words in (["train", GRAPH, "--bogus", "1"], ["train", "nothing", "--out", "run"], ["train", GRAPH]):
        code, said = ended(start(tmp_path, *words, launcher=TORCHRUN))
        assert code != 0 and said.count("halowire: error: ") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"RANK": "5"}, "RANK is 5, but WORLD_SIZE is 2"),
        ({"MASTER_PORT": "99999"}, "MASTER_PORT is 99999; expected a port"),
        ({"LOCAL_WORLD_SIZE": "0"}, "LOCAL_WORLD_SIZE is 0"),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "1"}, "LOCAL_RANK is 1, but LOCAL_WORLD_SIZE is 1"),
        ({"GLOO_SOCKET_IFNAME": "nosuch0"}, "names the interface 'nosuch0', which this machine does not have"),
    ],
)
def test_a_variable_of_the_launcher_that_cannot_be_is_one_line(tmp_path, capfd, monkeypatch, names, words):
    monkeypatch.chdir(tmp_path)
    place = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    for name, value in (place | {"HALOWIRE_TOKEN": "0123456789abcdef"} | names).items():
        monkeypatch.setenv(name, value)
    assert main([*TRAIN, "--deadline", "5", "--out", "run"]) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and words in said


@pytest.mark.slow
def test_two_machines_by_hand_cut_their_own_shards(tmp_path):
    words = [*TRAIN, "--epochs", "3", "--out", "run"]
    port, processes = str(free_port()), []
    for rank in (0, 1):
        place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        place["HALOWIRE_TOKEN"] = "0123456789abcdef"
        folder = tmp_path / f"machine-{rank}"
        folder.mkdir()
        environment = os.environ | place | {"OMP_NUM_THREADS": "1"}
        processes.append(subprocess.Popen([sys.executable, "-m", "halowire", *words], cwd=folder, env=environment))
    assert [process.wait(60) for process in processes] == [0, 0]
    assert (tmp_path / "machine-1/run/shards/manifest.json").exists()
    state = next((tmp_path / "machine-0/run/checkpoints").iterdir()) / "state.safetensors"
    assert load_file(state)
    assert not list((tmp_path / "machine-1/run/checkpoints").iterdir())


@pytest.mark.slow
def test_from_python_in_a_loop_and_in_a_thread(tmp_path):
    Path(tmp_path, "script.py").write_text(SCRIPT)
    code, said = ended(start(tmp_path, launcher=("script.py",)), 90)
    assert (code, said) == (0, "")
    assert (tmp_path / "out.npy").exists() and (tmp_path / "thread/summary.json").exists()
