"""``halowire.fit`` in a program of the user's: its own modules, an event loop, Ctrl-C, errors in its own code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

import halowire
from halowire.errors import InputError
from tests.support.fit_case import SCRIPTS, make_data, run_script
from tests.support.started import start, wait_for_epochs

pytestmark = pytest.mark.timeout(600)  # programs that start programs: a busy machine takes its time
SCRIPT = str(SCRIPTS / "fault_script.py")
MODULE = """
    import torch
    from helper import activation
    from torch_geometric.nn import SAGEConv

    class Net(torch.nn.Module):
        def __init__(self, channels, labels):
            super().__init__()
            self.first, self.last = SAGEConv(channels, 8), SAGEConv(8, labels)

        def forward(self, x, edge_index):
            return self.last(activation(self.first(x, edge_index)), edge_index)
"""
NOTEBOOK = """
    import asyncio, copy, sys
    sys.path.append(sys.argv[1])
    import torch
    import torch.nn.functional as F
    from my_model import Net
    from torch_geometric.data import Data
    import halowire

    graph = halowire.block_model(200, 1500, 6, 3, seed=1)
    y = F.one_hot(graph.y, 3).float()
    y[::5, 0] = 1
    masks = {name: getattr(graph, name) for name in ("train_mask", "val_mask", "test_mask")}
    data = Data(x=graph.x, edge_index=graph.edge_index(), y=y, **masks)
    torch.manual_seed(0)
    net = Net(6, 3)

    async def cell():
        settings = {"epochs": 5, "eval.every": 5, "optim.lr": 0.01, "threads": 1}
        return halowire.fit(net, data, workers=2, settings=settings, out=sys.argv[2], quiet=True)

    done = asyncio.run(cell())
    plain = copy.deepcopy(net)
    optimiser = torch.optim.Adam(plain.parameters(), lr=0.01)
    for _ in range(5):
        optimiser.zero_grad()
        out = plain(data.x, data.edge_index)[data.train_mask]
        loss = F.binary_cross_entropy_with_logits(out, y[data.train_mask])
        loss.backward()
        optimiser.step()
    want = plain.eval()(data.x, data.edge_index).detach()
    found = done.predictions
    assert found.shape == want.shape and float((found - want).abs().max()) < 1e-3 * float(want.abs().max())
    assert abs(done.summary["train_loss"] - float(loss)) < 1e-4 * float(loss)
    right, known = (found > 0) & (y > 0), data.test_mask
    score = 2 * right[known].sum() / ((found > 0)[known].sum() + y[known].sum())
    assert done.summary["metric"] == "micro-f1", done.summary["metric"]
    assert abs(done.summary["test"] - float(score)) < 1e-6
    print("good")
"""


@pytest.mark.slow
def test_modules_beside_the_script_and_folders_added_in_a_notebook_reach_the_workers(tmp_path):
    """Several labels, a class of a module beside the script, a folder added by hand, a loop of events that runs."""
    for folder in ("app", "extra", "elsewhere"):
        (tmp_path / folder).mkdir()
    (tmp_path / "app" / "my_model.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / "app" / "cell.py").write_text(textwrap.dedent(NOTEBOOK))
    (tmp_path / "extra" / "helper.py").write_text("def activation(x):\n    return x.tanh()\n")
    words = [sys.executable, tmp_path / "app" / "cell.py", tmp_path / "extra", tmp_path / "run"]
    done = subprocess.run(
        words, cwd=tmp_path / "elsewhere", env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "good\n"


@pytest.fixture
def begin(tmp_path):
    """Starts the script; one that a test has not seen end is killed, and on Linux its workers with it."""
    begun = []

    def run(kind: str) -> subprocess.Popen[str]:
        begun.append(start(tmp_path, kind, "run", launcher=(SCRIPT,)))
        return begun[-1]

    yield run
    for process in begun:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on_in_python(tmp_path, begin):
    process = begin("interrupt")
    wait_for_epochs(tmp_path / "run", 3, seconds=280)
    os.killpg(process.pid, signal.SIGINT)
    said, complaint = process.communicate(timeout=280)
    assert process.returncode == 0, complaint
    assert said.startswith("Interrupted: stopped with a checkpoint after epoch "), complaint
    assert said.endswith("of 100000; the same call with resume=True, out='run' goes on\n")


def test_an_error_of_the_users_code_in_one_worker_reaches_the_caller(begin):
    process = begin("error")
    said, complaint = process.communicate(timeout=280)
    assert process.returncode == 0, complaint
    assert said.startswith("TrainingError: worker 1 failed with ValueError: no values for 0 rows ("), said
    assert f"{Path(SCRIPT).name}, line 16, in loss); its traceback is printed above; stopped before" in said
    assert said.endswith("overwrite=True starts again\n")
    assert "Traceback" in complaint and complaint.count("ValueError: no values for 0 rows") == 1


@pytest.mark.slow
def test_a_killed_worker_is_started_again_and_ends_like_the_uninterrupted_run(tmp_path):
    """kill -9 of one worker of `fit`, once, after the checkpoint of epoch 4; dropout and late rows included."""
    same = json.loads(run_script(SCRIPTS / "fit_fault_script.py", "killed", tmp_path))
    assert same == {"killed": True, "predictions": True, "loss": True, "weights": True}


@pytest.mark.slow
def test_a_weight_that_goes_bad_is_named_by_its_module(tmp_path):
    said = run_script(SCRIPTS / "fit_fault_script.py", "nan", tmp_path)
    assert said.startswith("epoch 5: the output of second.lin_l (Linear), forward, has "), said
    assert "not finite on rank 1; the weight model.second.lin_l.weight has 1 value" in said, said
    assert "stopped with a checkpoint after epoch 4 of 8; the same call with resume=True" in said, said


def test_a_negative_number_of_restarts_is_refused(tmp_path):
    with pytest.raises(InputError, match="max_restarts is -1"):
        halowire.fit(pyg.GCNConv(5, 3), make_data(), max_restarts=-1, out=tmp_path / "run")


class Locked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = pyg.GCNConv(5, 3)
        self.inner.guards = {"lock": threading.Lock()}

    def forward(self, x, edge_index):
        return self.inner(x, edge_index)


def test_what_cannot_be_handed_over_is_named_before_anything_is_written(tmp_path):
    lock = threading.Lock()

    def loss(out, part):
        with lock:
            return out[:, 0]

    given = {"settings": {"epochs": 1}, "out": tmp_path / "run", "quiet": True}
    with pytest.raises(InputError, match=r"^model\.inner\.guards\['lock'\] is a lock, which cannot be handed"):
        halowire.fit(Locked(), make_data(), **given)
    with pytest.raises(InputError, match=r"^lock of loss is a lock, which cannot be handed"):
        halowire.fit(pyg.GCNConv(5, 3), make_data(), loss=loss, **given)
    assert not (tmp_path / "run").exists()


def test_one_worker_leaves_torch_as_it_was(tmp_path):
    model, threads = pyg.models.GCN(5, 4, 2, 3, dropout=0.5), torch.get_num_threads()
    state = torch.get_rng_state()
    settings = {"epochs": 1, "threads": threads + 1}
    halowire.fit(model, make_data(), settings=settings, out=tmp_path / "run", quiet=True)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_predictions_of_a_run_of_fit_are_written_again(tmp_path):
    run = tmp_path / "run"
    done = halowire.fit(pyg.GCNConv(5, 3), make_data(), settings={"epochs": 2}, out=run, quiet=True)
    logits = torch.from_numpy(np.load(halowire.predict(done, tmp_path / "logits.npy")))
    assert torch.equal(logits, done.predictions)
    lines = halowire.predict(run, tmp_path / "classes.csv").read_text().splitlines()
    assert lines[0] == "id,class" and lines[1:] == [f"{i},{c}" for i, c in enumerate(logits.argmax(1).tolist())]
    (run / "predictions.npy").unlink()
    with pytest.raises(InputError, match="no predictions yet"):
        halowire.predict(run, tmp_path / "logits.npy")
