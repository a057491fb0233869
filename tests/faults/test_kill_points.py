"""kill -9 right before and after every fsync and rename of a run, and in random epochs: it ends bit for bit alike."""

from __future__ import annotations

import json

import pytest

from tests.support.fit_case import run_script
from tests.support.recipe_case import ALL


def killed(folder, recipe: str, workers: int, step: int) -> None:
    words = ("-m", "tests.support.scripts.kill_points_script", folder, recipe, workers, step)
    found = json.loads(run_script(*words, seconds=1200).splitlines()[-1])
    assert found["bad"] == [] and found["kills"] >= 5, found
    assert found["calls"][0] > 3, "rank 0 makes files last; a worker whose wire remembers nothing has none of its own"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_some_points_of_one_worker(tmp_path):
    killed(tmp_path, "sylvie-a", 1, 4)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("recipe", "workers"), [("exact", 1), ("halowire", 2), ("gnnpipe", 2)])
def test_every_point(tmp_path, recipe, workers):
    killed(tmp_path, recipe, workers, 1)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_random_epochs_of_two_workers(tmp_path):
    killed(tmp_path, "halowire", 2, 0)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("recipe", ALL)
def test_random_epochs_of_every_recipe(tmp_path, recipe, workers):
    killed(tmp_path, recipe, workers, 0)
