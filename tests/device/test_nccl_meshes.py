"""Every recipe and every mesh by the stand-in for NCCL, in real processes: no race, and every message meets its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from halowire.training import RECIPES, Config
from tests.support.allowed import allowed
from tests.support.device_case import Outcome, config_of, same_run, torch_kernels, train_on
from tests.support.order_watch import Post, wrong_meetings
from tests.support.sim import SIM, nccl_here, nccl_simulated


def _watched(rank: int, config: Config) -> tuple[tuple[Outcome, Outcome], list[Post]]:
    """Train on the simulated device and on the CPU; what this worker posted to NCCL."""
    with nccl_simulated() as simulation:
        device = train_on(SIM, config, counts=simulation.counts)
        posts = nccl_here().posts
    with torch_kernels():
        return (device, train_on("cpu", config)), posts


def _check(found: list[tuple[tuple[Outcome, Outcome], list[Post]]]) -> set[tuple[int, ...]]:
    """Assert that nothing went wrong; returns the workers of every lane."""
    same_run([both for both, _ in found])
    logs = [posts for _, posts in found]
    assert all(logs) and not wrong_meetings(logs)
    return {post.lane[1] for log in logs for post in log if post.peer >= 0}


DEEP: dict[str, Any] = {"model__layers": 4, "epochs": 3, "eval__every": 3}
STAGED: list[tuple[str, str, dict[str, Any]]] = [
    ("gcnii", "gnnpipe", {}),
    ("sage", "gnnpipe-1bit", {}),
    ("gcn", "halowire-classic", {"rate__share": 0.0}),
    ("resgcn", "varco", {}),
]
"""Stages send two kinds of rows, changes in one bit, changes with gradients clipped, and columns."""
MESHES: list[tuple[int, str, str, dict[str, Any]]] = [
    (workers, model, recipe, more)
    for workers, stages in ((2, 2), (3, 3), (4, 4), (4, 2))
    for chunks in (1, 3)
    for model, recipe, wire in STAGED
    for more in [{"mesh__stages": stages, "mesh__parts": workers // stages, "mesh__chunks": chunks, **wire}]
    if allowed(config_of(model, recipe, **DEEP, **more), workers)
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "model", "recipe", "more"),
    MESHES,
    ids=[f"{w} {m} {r} {list(more.values())}" for w, m, r, more in MESHES],
)
def test_every_mesh(
    on_sim: Callable[..., list[Any]], workers: int, model: str, recipe: str, more: dict[str, Any]
) -> None:
    lanes = _check(on_sim(_watched, config_of(model, recipe, **DEEP, **more), workers=workers))
    parts = more["mesh__parts"]
    assert lanes == {(rank, rank + parts) for rank in range(workers - parts)}, (
        "two neighbours share a lane of their own"
    )


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [name for name, recipe in RECIPES.items() if recipe.config.mesh.stages == 1])
@pytest.mark.parametrize("workers", [2, 3])
def test_every_recipe_of_parts(on_sim: Callable[..., list[Any]], workers: int, recipe: str) -> None:
    if recipe == "isolated":
        pytest.skip("nothing travels in training")
    assert not _check(on_sim(_watched, config_of("sage", recipe), workers=workers)), "all messages are collective"


def test_the_rules_leave_stages_to_every_recipe_of_the_list() -> None:
    assert {(workers, model, recipe) for workers, model, recipe, _ in MESHES} >= {
        (workers, model, recipe) for workers in (2, 3, 4) for model, recipe, _ in STAGED
    }
