"""Fixtures that all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.support.pool import Pool

SIMULATED = -1
"""The key of a pool whose workers have the simulated device is its size times this."""

# The quick suite gives the same verdict every time; `HYPOTHESIS_PROFILE=search` looks for new cases.
settings.register_profile("same", derandomize=True)
settings.register_profile("search", print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Matrices of tests are small: a second thread costs more than it does, a hundredfold where the cores are busy."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _terminal_can_close() -> Iterator[None]:
    """Programs inherit from `nohup make test` that they ignore the end of a terminal, which tests send to them."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="session")
def pools() -> Iterator[dict[int, Pool]]:
    """The pools started so far, by size."""
    started: dict[int, Pool] = {}
    yield started
    for pool in started.values():
        pool.close()


@pytest.fixture
def on_workers(pools: dict[int, Pool]) -> Callable[..., list[Any]]:
    """``on_workers(n, function, *args)`` runs ``function(rank, *args)`` on ``n`` resident workers."""

    def run(size: int, function: Callable[..., Any], *args: Any, deadline: float = 90.0) -> list[Any]:
        if size not in pools or not pools[size].alive:
            pools[size] = Pool(size)
        return pools[size].run(function, *args, deadline=deadline)

    return run


@pytest.fixture
def on_sim(pools: dict[int, Pool]) -> Callable[..., list[Any]]:
    """``on_sim(function, *args)`` runs ``function(rank, *args)`` on two workers that have the simulated device.

    ``workers`` may ask for more of them. No other test runs in their processes, whose torch believes that it has an
    accelerator.
    """
    from tests.support.sim import have_device

    def run(function: Callable[..., Any], *args: Any, deadline: float = 90.0, workers: int = 2) -> list[Any]:
        key = SIMULATED * workers
        if key not in pools or not pools[key].alive:
            pools[key] = Pool(workers)
            pools[key].run(have_device)
        return pools[key].run(function, *args, deadline=deadline)

    return run
