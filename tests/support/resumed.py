"""Runs that stop half-way and go on: what a worker is left with, which must be that of a run in one go, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from halowire.training import Hooks, Silent, Trainer

TIMED = {"epoch_seconds", "wait_seconds", "peak_memory_bytes"}


def outcome(trainer: Trainer, summary: dict[str, Any]) -> dict[str, Any]:
    """The weights that this worker trains, now and at the best epoch, and the summary without what clocks tell."""
    own = trainer.runner.parameters
    found = {"weights": trainer.model.state_dict(), "best": trainer.progress.best_weights}
    kept = {kind: {name: value.numpy().copy() for name, value in state.items() if name in own}
            for kind, state in found.items()}  # fmt: skip
    return kept | {"summary": {key: value for key, value in summary.items() if key not in TIMED}}


def run_in_one_go(trainer: Trainer) -> dict[str, Any]:
    """The outcome of a whole run."""
    return outcome(trainer, trainer.run())


def run_in_two(make: Callable[[], Trainer], epochs: int, asked: bool = True) -> tuple[str, dict[str, Any]]:
    """Stop after ``epochs`` (of all workers, those that are ``asked`` say so), then go on in a new trainer.

    Returns how the first run ended, and the outcome of the second.
    """
    calls = iter(range(100))
    summary = make().run(Hooks(Silent(), should_stop=lambda: asked and next(calls) >= epochs - 1))
    second = make()
    second.resume()
    assert second.progress.epoch == epochs
    return summary["status"], run_in_one_go(second)


def assert_same(got: dict[str, Any], want: dict[str, Any]) -> None:
    """The same bits; bytes of the whole run aside, of which the second start costs some."""
    for kind in ("weights", "best"):
        assert got[kind].keys() == want[kind].keys()
        for name, value in want[kind].items():
            np.testing.assert_array_equal(got[kind][name], value, err_msg=name)
    for key, value in want["summary"].items():
        if "bytes" not in key:
            assert got["summary"][key] == value, key
