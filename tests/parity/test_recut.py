"""A run goes on with another number of workers, or another mesh: the graph is cut again, the wire starts afresh."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from halowire.events import read_events
from tests.support.checkpoint_case import broken_off_here, losses, resumed_here, stopped_here, straight_here
from tests.support.resumed import assert_same

NUMBERS = pytest.mark.parametrize("workers", [1, 3])


@NUMBERS
@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_an_exact_run_goes_on_with_the_same_losses(on_workers, tmp_path, workers, model):
    """Dropout is keyed by the nodes, so the losses stay those of a run in one go, up to rounding."""
    settings = {"model__name": model}
    on_workers(2, straight_here, str(tmp_path / "straight"), "exact", settings)
    on_workers(2, stopped_here, str(tmp_path / "run"), "exact", settings, 4)
    for begun, warnings, _ in (
        one[0] for one in on_workers(workers, resumed_here, [str(tmp_path / "run")], "exact", settings)
    ):
        assert begun == 4 and not warnings
    got, want = losses(tmp_path / "run"), losses(tmp_path / "straight")
    assert got[:4] == want[:4] and len(got) == 8
    np.testing.assert_allclose(got, want, rtol=1e-4)
    told = [event for event in read_events(tmp_path / "run/events-0.jsonl") if event["event"] == "recut"]
    assert len(told) == 1 and (told[0]["before"], told[0]["workers"], told[0]["epoch"]) == (2, workers, 4)
    assert told[0]["why"] == f"the run had 2 workers, now {workers}"
    if workers == 1:  # of the worker that is gone, only the epochs before the checkpoint are left
        epochs = [event["epoch"] for event in read_events(tmp_path / "run/events-1.jsonl") if event["event"] == "epoch"]
        assert epochs == [0, 1, 2, 3]


@NUMBERS
@pytest.mark.parametrize("recipe", ["sylvie-a", "varco", "halowire", "two-levels", "gnnpipe"])
def test_other_recipes_go_on_sanely(on_workers, tmp_path, recipe, workers):
    settings = {"epochs": 16, "model__dropout": 0.0}
    on_workers(2, stopped_here, str(tmp_path / "run"), recipe, settings, 8)
    runs = [str(tmp_path / "run")]
    results = on_workers(workers, resumed_here, runs, recipe, settings)
    assert all(one[0][0] == 8 and one[0][2]["summary"]["status"] == "finished" for one in results)
    found = losses(tmp_path / "run")
    assert len(found) == 16 and np.isfinite(found).all()
    assert np.mean(found[12:]) < np.mean(found[4:8]), "it learns on"
    events = read_events(tmp_path / "run/events-0.jsonl")
    if recipe == "sylvie-a" and workers == 3:
        fresh = {event["epoch"]: event["synchronous"] for event in events if event["event"] == "epoch"}
        assert fresh[8] and not fresh[9], "the first epoch uses its own rows"


def test_back_to_the_first_number_before_a_new_checkpoint_is_bit_for_bit(on_workers, tmp_path):
    """A resume with another number that ended before its first checkpoint leaves the run as it was."""
    want = on_workers(2, straight_here, str(tmp_path / "straight"), "halowire", {})
    on_workers(2, stopped_here, str(tmp_path / "run"), "halowire", {}, 4)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    on_workers(3, resumed_here, [str(tmp_path / "copy")], "halowire", {})
    got = on_workers(2, resumed_here, [str(tmp_path / "run")], "halowire", {})
    for rank, runs in enumerate(got):
        for name, value in want[rank]["weights"].items():
            np.testing.assert_array_equal(runs[0][2]["weights"][name], value)


@pytest.mark.parametrize("epoch", [5, 7])
@pytest.mark.parametrize("recipe", ["sylvie-a", "halowire"])
def test_a_recut_run_that_is_broken_off_goes_on_bit_for_bit(on_workers, tmp_path, recipe, epoch):
    """In epoch 5 no checkpoint of the new cut exists yet; in epoch 7 the one after epoch 6 is there."""
    on_workers(2, stopped_here, str(tmp_path / "run"), recipe, {}, 4)
    shutil.copytree(tmp_path / "run", tmp_path / "straight")
    want = on_workers(3, resumed_here, [str(tmp_path / "straight")], recipe, {})
    on_workers(3, broken_off_here, str(tmp_path / "run"), recipe, {}, epoch)
    got = on_workers(3, resumed_here, [str(tmp_path / "run")], recipe, {})
    for one, other in zip(got, want, strict=True):
        assert one[0][0] == (4 if epoch == 5 else 6)
        assert_same(one[0][2], other[0][2])
    assert losses(tmp_path / "run") == losses(tmp_path / "straight")


def test_another_mesh_of_as_many_workers(on_workers, tmp_path):
    on_workers(4, stopped_here, str(tmp_path), "hybrid", {}, 4)
    results = on_workers(4, resumed_here, [str(tmp_path)], "hybrid", {"mesh__stages": 4, "mesh__parts": 1})
    assert results[0][0][2]["summary"]["mesh"]["stages"] == 4 and results[0][0][0] == 4
    told = [event for event in read_events(tmp_path / "events-0.jsonl") if event["event"] == "recut"]
    assert told[0]["why"].startswith("the run had a mesh of 2 stages x 2 parts")
