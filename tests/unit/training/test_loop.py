"""The learning rate over a run, checked at its ends and in the middle."""

from __future__ import annotations

import pytest

from halowire.training.config import OptimConfig
from halowire.training.loop import learning_rate


def rates(epochs: int, **settings: object) -> list[float]:
    return [learning_rate(OptimConfig(lr=1.0, **settings), epoch, epochs) for epoch in range(epochs)]


def test_constant():
    assert rates(3) == [1.0, 1.0, 1.0]


def test_cosine_falls_from_one_by_half_in_the_middle():
    values = rates(100, schedule="cosine")
    assert values[0] == 1.0 and values[50] == pytest.approx(0.5) and 0 < values[99] < 0.001
    assert values == sorted(values, reverse=True)


def test_linear_after_a_warm_up():
    assert rates(8, schedule="linear", warmup=4) == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 0.75, 0.5, 0.25])


def test_step():
    assert rates(5, schedule="step", step_every=2, step_factor=0.1) == pytest.approx([1, 1, 0.1, 0.1, 0.01])


def test_a_run_of_one_epoch():
    assert rates(1, schedule="cosine", warmup=1) == [1.0]
