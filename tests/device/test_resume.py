"""A run that goes on from a checkpoint on the simulated device equals one that was never interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.device_case import Outcome, config_of, train_in_two_runs
from tests.support.device_pyg import fit_trainer_on
from tests.support.sim import SIM

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("sage", "sylvie-a", {"rate__weights": 8}),
    ("gcn", "halowire", {}),
    ("gcnii", "gnnpipe-1bit", {"model__layers": 3, "mesh__chunks": 2, "mesh__gradient_rule": "stale"}),
]
"""Wires that remember: late messages, the errors of the weight gradients, delta coding, historical rows."""


def _same(resumed: Outcome, whole: Outcome) -> None:
    assert resumed.loss == whole.loss
    assert all(np.array_equal(value, whole.tensors[name]) for name, value in resumed.tensors.items())


def _check(on_sim: Callable[..., list[Any]], tmp_path: Path, case: tuple[Any, ...], first: str, then: str) -> None:
    model, recipe, more = case
    config = config_of(model, recipe, **more, checkpoint__every=1)
    for resumed, whole in on_sim(train_in_two_runs, config, str(tmp_path / "run"), first, then):
        _same(resumed, whole)


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


def test_a_model_that_draws_goes_on_with_the_numbers_of_the_device(
    on_sim: Callable[..., list[Any]], tmp_path: Path
) -> None:
    config = config_of("sage", "exact", epochs=2, checkpoint__every=1)
    for resumed, whole in on_sim(train_in_two_runs, config, str(tmp_path / "run"), SIM, SIM, fit_trainer_on):
        _same(resumed, whole)
