"""The built-in graph: two workers end where one worker ends."""

from __future__ import annotations

import pytest

import halowire


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_workers_end_at_the_accuracy_of_one(tmp_path, seed):
    settings = {"epochs": 100, "model.hidden": 128, "seed": seed}
    runs = [
        halowire.train("debian", workers=workers, out=tmp_path / f"workers-{workers}", settings=settings, quiet=True)
        for workers in (1, 2)
    ]
    one, two = (run.summary["test"] for run in runs)
    assert one > 0.78
    assert abs(one - two) <= 0.002, f"one worker {one:.4f}, two workers {two:.4f}"
