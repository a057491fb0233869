"""Training over the wire, held against the slow reference or against training with other settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from halowire.training import Config
from tests.support.epochs import Epochs, difference
from tests.support.steady import steady
from tests.support.wire_case import EPOCHS, make_config, train_here, wire_epochs

CLOSE = 1e-3


def find_steady(settings: dict[str, object], workers: int, method: str = "random") -> tuple[Config, Epochs]:
    return steady(make_config(settings), partial(wire_epochs, workers=workers, method=method), CLOSE)


def assert_gradients(results: list[dict], want: Epochs) -> None:
    for result in results:
        got = [{name: epoch[name] for name in want[0]} for epoch in result["epochs"]]
        words = difference(got, want, CLOSE)
        assert not words, words


def trained(on_workers: Callable, settings: dict[str, object]) -> list[dict]:
    return on_workers(2, train_here, make_config(settings))


def same(a: list[dict], b: list[dict]) -> bool:
    return all(
        np.array_equal(value, y["epochs"][epoch][name])
        for x, y in zip(a, b, strict=True)
        for epoch in range(EPOCHS)
        for name, value in x["epochs"][epoch].items()
    )
