"""The pipeline and the hybrid on the simulated device in real processes: the CPU's results, and few host waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch

from halowire.layers import MODELS, Rows
from halowire.schedules import ChunkSums
from halowire.training import RECIPES
from halowire.wire import MEASURE_EVERY
from tests.support.allowed import refused
from tests.support.device_case import config_of, few_waits, same_run, train_both, train_on
from tests.support.sim import SIM, DeviceError, Simulation

MOST_WAITS = 3
"""The loss and all that is decided by it are read once, and the clock; in some epochs the errors of the codes too."""
HYBRID = {"mesh__parts": 2, "mesh__chunks": 3}
"""On two workers this is one stage of two parts, on four workers there are two stages."""

Case = tuple[str, str, dict[str, Any]]
QUICK: list[Case] = [
    ("gcnii", "gnnpipe", {"model__layers": 4, "mesh__chunks": 3, "optim__clip": 1.0}),
    ("sage", "gnnpipe-1bit", {"mesh__chunks": 2, "mesh__history": 2}),
    ("gcn", "exact", {**HYBRID, "rate__bits": 1, "rate__ratio": 2.0}),
]
"""Stages with and without initial rows, stages that send changes, chunks of two parts that exchange coded columns."""


def _check(
    on_sim: Callable[..., list[Any]], case: Case, kind: str = "classes", workers: int = 2, **more: object
) -> None:
    model, recipe, settings = case
    both = on_sim(train_both, config_of(model, recipe, **settings | more), kind, workers=workers)
    same_run(both)
    few_waits(both, MOST_WAITS, first=int(kind == "words"))  # sparse features are transposed in the first epoch


def _names(cases: list[Case]) -> list[str]:
    return [" ".join([model, recipe, *more]) for model, recipe, more in cases]


@pytest.mark.parametrize("case", QUICK, ids=_names(QUICK))
def test_stages_and_chunks_on_a_device(on_sim: Callable[..., list[Any]], case: Case) -> None:
    _check(on_sim, case)


SPLIT = [name for name, model in MODELS.items() if model.can_split]
MESHES: list[tuple[str, dict[str, Any]]] = [
    ("gnnpipe", {}),
    ("pipeline", {}),
    ("pipeline", {"mesh__chunks": 1, "mesh__keep": "aggregates"}),
    ("gnnpipe-1bit", {}),
    ("exact", HYBRID),
    ("exact", {**HYBRID, "mesh__keep": "aggregates", "mesh__gradient_rule": "position", "mesh__history": 3}),
]
WHOLE: list[Case] = [(model, recipe, {"model__layers": 5, **more}) for model in SPLIT for recipe, more in MESHES]


@pytest.mark.slow
@pytest.mark.parametrize("case", WHOLE, ids=_names(WHOLE))
def test_every_model_and_mesh(on_sim: Callable[..., list[Any]], case: Case) -> None:
    _check(on_sim, case, epochs=MEASURE_EVERY + 2)


LARGE: list[Case] = [
    (model, recipe, {"model__layers": 5, "mesh__chunks": 4})
    for model in SPLIT
    for recipe in ("gnnpipe", "pipeline", "gnnpipe-1bit", "hybrid")
]
"""Four stages of one part; two stages of two parts."""


@pytest.mark.slow
@pytest.mark.parametrize("case", LARGE, ids=_names(LARGE))
def test_four_workers(on_sim: Callable[..., list[Any]], case: Case) -> None:
    _check(on_sim, case, workers=4)


OF_TASKS = ["gnnpipe", "pipeline", "gnnpipe-1bit", "exact", "hybrid"]


def _of_task(model: str, mesh: str) -> tuple[Case, int]:
    """A case of a mesh, and its number of workers."""
    return (model, mesh, {"model__layers": 4, **(HYBRID if mesh == "exact" else {})}), 4 if mesh == "hybrid" else 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["labels", "values", "words", "inductive"])
@pytest.mark.parametrize("mesh", OF_TASKS)
@pytest.mark.parametrize("model", SPLIT)
def test_every_model_and_task(on_sim: Callable[..., list[Any]], model: str, mesh: str, kind: str) -> None:
    case, workers = _of_task(model, mesh)
    _check(on_sim, case, kind, workers, task__inductive=kind == "inductive")


WIRES: list[tuple[str, dict[str, Any]]] = [
    ("gnnpipe", {"rate__bits": 16}),
    ("gnnpipe", {"rate__ratio": 2.0, "rate__rescale": True}),
    ("gnnpipe", {"rate__bits": 4, "rate__columns": "first", "rate__ratio": 2.0, "mesh__gradient_rule": "unbiased"}),
    ("gnnpipe", {"rate__base": "loss", "rate__bits": 2}),
    ("gnnpipe", {"rate__schedule": "linear", "rate__max_ratio": 4.0, "mesh__shuffle": False}),
    # Two layers are split in one way, whatever they cost: other splits would differ from run to run.
    ("gnnpipe", {"mesh__costs": "measured", "model__layers": 2, "mesh__gradient_rule": "stale"}),
    ("gnnpipe", {"model__dropout": 0.0, "model__norm": "none"}),
    ("exact", {**HYBRID, "rate__bits": 8, "rate__weights": 8, "optim__clip": 0.5}),
    ("exact", {**HYBRID, "rate__bits": 1, "rate__code": "levels", "rate__backward_code": "clipped"}),
    ("exact", {**HYBRID, "rate__schedule": "linear", "rate__max_ratio": 4.0}),
    ("exact", {"mesh__parts": 2, "mesh__keep": "aggregates", "freshness__mode": "delayed", "rate__bits": 1}),
    ("exact", {"mesh__parts": 2, "mesh__keep": "aggregates", "rate__rows": 0.5}),
]
"""Settings of the wire and of the mesh that no recipe has, each at least once."""


@pytest.mark.slow
@pytest.mark.parametrize("model", ["sage", "gcnii"])
@pytest.mark.parametrize(("recipe", "more"), WIRES, ids=[" ".join([recipe, *more]) for recipe, more in WIRES])
def test_every_setting(on_sim: Callable[..., list[Any]], model: str, recipe: str, more: dict[str, Any]) -> None:
    _check(on_sim, (model, recipe, {"model__layers": 4, **more}))


def _read_after_every_chunk(sums: ChunkSums, rows: Rows) -> None:
    float(sums.grad_room(0, mock.Mock(), rows).sum())


def _on_the_host(rows: int, width: int, device: torch.device) -> torch.Tensor:
    return torch.zeros(rows, width)


def _faulty(rank: int) -> None:
    config = config_of("gcn", "exact", **HYBRID)
    with mock.patch.object(ChunkSums, "done", _read_after_every_chunk), Simulation() as simulation:
        waits = train_on(SIM, config, counts=simulation.counts).waits
    line = f"device/test_pipeline.py:{_read_after_every_chunk.__code__.co_firstlineno + 1}"
    assert all(epoch["read of a value", line] == config.mesh.chunks for epoch in waits)
    unplaced = mock.patch("halowire.schedules.chunk_sums.zeros", _on_the_host)
    with unplaced, Simulation(), pytest.raises(DeviceError, match="meet"):
        train_on(SIM, config)


def test_a_read_and_a_matrix_of_the_host_in_the_pipeline_are_found(on_sim: Callable[..., list[Any]]) -> None:
    on_sim(_faulty)


def test_every_case_is_allowed() -> None:
    wires = [(model, recipe, {"model__layers": 4, **more}) for model in ("sage", "gcnii") for recipe, more in WIRES]
    assert not refused(config_of(model, recipe, **more) for model, recipe, more in [*QUICK, *WHOLE, *wires])
    assert not refused((config_of(model, recipe, **more) for model, recipe, more in LARGE), workers=4)
    tasks = [_of_task(model, mesh) for model in SPLIT for mesh in OF_TASKS]
    for (model, recipe, more), workers in tasks:
        assert not refused([config_of(model, recipe, **more)], workers)


def test_every_recipe_of_stages_is_in_each_matrix() -> None:
    staged = {name for name, recipe in RECIPES.items() if recipe.config.mesh.stages != 1}  # others: test_training.py
    assert staged <= {recipe for _, recipe, _ in [*WHOLE, *LARGE]}
    assert staged <= {recipe for _, recipe, _ in LARGE}
    assert staged <= set(OF_TASKS)
