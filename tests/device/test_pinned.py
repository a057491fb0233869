"""Rows of a device by way of the host and Gloo: the CPU's results and bytes; Gloo never sees the device's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from halowire.wire import transport_pinned
from tests.support.device_case import Outcome, config_of, same_run, train_both
from tests.support.sim import pinned_simulated


def _staged(rank: int, *settings: Any) -> tuple[Outcome, Outcome]:
    """Train with messages that are cut into pieces from 64 bytes on."""
    whole, transport_pinned.CUT_BYTES = transport_pinned.CUT_BYTES, 64
    try:
        return train_both(rank, *settings, network=pinned_simulated)
    finally:
        transport_pinned.CUT_BYTES = whole


QUICK: list[tuple[str, str, dict[str, Any]]] = [
    ("sage", "pipegcn", {"rate__weights": 8}),
    ("gcnii", "gnnpipe", {"model__layers": 4, "mesh__chunks": 3, "optim__clip": 1.0}),
]
"""Delayed messages to all peers with coded weight gradients, and stages with two kinds of rows."""


@pytest.mark.parametrize(("model", "recipe", "more"), QUICK, ids=[f"{m} {r}" for m, r, _ in QUICK])
def test_rows_travel_through_the_host(
    on_sim: Callable[..., list[Any]], model: str, recipe: str, more: dict[str, Any]
) -> None:
    same_run(on_sim(_staged, config_of(model, recipe, **more)))
