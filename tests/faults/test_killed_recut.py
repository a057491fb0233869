"""A resume with another number of workers is killed while it cuts the graph, and while it trains: nothing is lost."""

from __future__ import annotations

import os
import shutil
import signal

import numpy as np
import pytest

from tests.support.checkpoint_case import losses
from tests.support.fit_case import SCRIPTS
from tests.support.started import TRAIN, ended, start, wait_for_epochs, weights

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
RUN = (*TRAIN, "--recipe", "sylvie-a", "--checkpoint.every", "5")
AGAIN = (*RUN, "--workers", "3", "--epochs", "20", "--resume", "--out")
SCRIPT = str(SCRIPTS / "killed_launcher_script.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of two workers, and the same gone on with three workers in one go."""
    folder = tmp_path_factory.mktemp("recut")
    assert ended(start(folder, *RUN, "--workers", "2", "--epochs", "10", "--out", "run"), 120)[0] == 0
    shutil.copytree(folder / "run", folder / "straight")
    assert ended(start(folder, *AGAIN, "straight"), 120)[0] == 0
    return folder


def goes_on(folder, name: str) -> None:
    """The run ``name``, resumed with three workers once more, ends like the one that was not killed, bit for bit."""
    code, said = ended(start(folder, *AGAIN, name), 120)
    assert code == 0, said
    got, want = weights(folder / name), weights(folder / "straight")
    assert got.keys() == want.keys()
    for key, value in want.items():
        np.testing.assert_array_equal(got[key], value, err_msg=key)
    assert losses(folder / name) == losses(folder / "straight")
    assert not list((folder / name).rglob("*tmp*"))


@pytest.mark.parametrize("call", range(1, 5))
def test_killed_at_a_rename_of_the_launcher(folder, call):
    """The launcher cuts the graph, puts the shards in place and writes the settings, each by a rename."""
    name = f"rename-{call}"
    shutil.copytree(folder / "run", folder / name)
    code, _ = ended(start(folder, str(call), *AGAIN, name, launcher=(SCRIPT,)), 120)
    assert code in (0, -signal.SIGKILL), "it has so many renames, or fewer"
    if code:
        goes_on(folder, name)
    else:
        assert call > 2, "a cut and its settings take at least two renames"


@pytest.mark.parametrize("epochs", [12, 16])
def test_killed_while_it_trains(folder, epochs):
    name = f"epoch-{epochs}"
    shutil.copytree(folder / "run", folder / name)
    process = start(folder, *AGAIN, name)
    wait_for_epochs(folder / name, epochs)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    goes_on(folder, name)
