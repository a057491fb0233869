"""A run that goes on from a checkpoint on the simulated device equals one that was never interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.device_case import config_of, train_in_two_runs
from tests.support.sim import SIM

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("sage", "sylvie-a", {"rate__weights": 8}),
    ("gcn", "halowire", {}),
]
"""Wires that remember: late messages, the errors of the weight gradients, delta coding."""


def _check(on_sim: Callable[..., list[Any]], tmp_path: Path, case: tuple[Any, ...], first: str, then: str) -> None:
    model, recipe, more = case
    config = config_of(model, recipe, **more, checkpoint__every=1)
    for resumed, whole in on_sim(train_in_two_runs, config, str(tmp_path / "run"), first, then):
        assert resumed.loss == whole.loss
        assert all(np.array_equal(value, whole.weights[name]) for name, value in resumed.weights.items())


@pytest.mark.parametrize("case", CASES, ids=[case[1] for case in CASES])
def test_a_resumed_run_goes_on_bit_for_bit(on_sim: Callable[..., list[Any]], tmp_path: Path, case: Any) -> None:
    _check(on_sim, tmp_path, case, SIM, SIM)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), [("cpu", SIM), (SIM, "cpu")])
@pytest.mark.parametrize("case", CASES, ids=[case[1] for case in CASES])
def test_a_run_may_go_on_on_another_device(
    on_sim: Callable[..., list[Any]], tmp_path: Path, case: Any, first: str, then: str
) -> None:
    _check(on_sim, tmp_path, case, first, then)
