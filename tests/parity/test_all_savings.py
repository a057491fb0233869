"""Every reduction of what travels, and all together, give the result of one process: models, cuts, tasks, wires."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from halowire.training import Config, GraphParallel, Trainer, predict
from halowire.wire import Transport
from tests.support.device_graphs import KINDS, part_of, trained_part
from tests.support.epochs import EXACT, compare, difference, train_epochs
from tests.support.exact_case import compare_dense, make_config, train_here
from tests.support.recipe_case import config_of, recipe_trainer
from tests.support.resumed import assert_same, run_in_one_go, run_in_two
from tests.support.stage_case import deep_epochs
from tests.support.stage_case import make_config as make_deep
from tests.support.steady import steady

HOME, COVER = {"wire.first_layer": "local"}, {"wire.cover": "on"}
SAVINGS = {"at home": HOME, "partial sums": COVER, "both": HOME | COVER}
QUICK = [("gcn", 2, "metis"), ("sage", 4, "hypergraph"), ("gcnii", 3, "hypergraph"), ("resgcn", 2, "random")]


def equals_one_process(on_workers: Any, model: str, workers: int, method: str, savings: dict[str, Any]) -> None:
    """Loss, logits and all gradients of every epoch, with dropout, element by element."""
    if model in ("gcn", "sage"):
        config = make_config(model).replace(savings)
        compare_dense(on_workers(workers, train_here, "plain", method, config), "plain", config)
    else:
        config, want = steady(make_deep(model, 1).replace(savings), partial(deep_epochs, case="plain"), EXACT)
        compare(on_workers(workers, train_here, "plain", method, config), want)


@pytest.mark.parametrize(("model", "workers", "method"), QUICK)
def test_all_together(on_workers, model, workers, method):
    equals_one_process(on_workers, model, workers, method, HOME | COVER)


@pytest.mark.slow
@pytest.mark.parametrize("savings", SAVINGS.values(), ids=SAVINGS)
@pytest.mark.parametrize("method", ["metis", "random", "hypergraph"])
@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("model", ["gcn", "sage", "gcnii", "resgcn"])
def test_every_model_and_cut(on_workers, model, workers, method, savings):
    equals_one_process(on_workers, model, workers, method, savings)


ON_MACHINES = {"mesh.hosts": 2}


@pytest.mark.parametrize(("model", "workers", "method"), [("sage", 4, "hypergraph"), ("gcnii", 3, "metis")])
def test_all_together_on_two_machines(on_workers, model, workers, method):
    equals_one_process(on_workers, model, workers, method, HOME | COVER | ON_MACHINES)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["metis", "random", "hypergraph"])
@pytest.mark.parametrize("workers", [3, 4])
@pytest.mark.parametrize("model", ["gcn", "sage", "gcnii", "resgcn"])
def test_every_model_and_cut_on_two_machines(on_workers, model, workers, method):
    equals_one_process(on_workers, model, workers, method, HOME | COVER | ON_MACHINES)


def task_here(rank: int, kind: str, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Epochs and predictions of this worker with everything that saves, and without."""
    found, transport = [], Transport()
    for savings in (HOME | COVER, {"wire.plain": True}):
        more = {"task.kind": "link"} if kind == "links" else {"task.kind": "regression"} if kind == "values" else {}
        config = Config().replace({"model.hidden": 16, "seed": 11, "epochs": 3} | more | settings | savings)
        whole, links = part_of(kind, config, transport, torch.device("cpu"))
        train = trained_part(kind, config, transport, whole)
        view = GraphParallel(train, whole, config, transport, task=links)
        trainer = Trainer(view, config, transport, Path(tempfile.mkdtemp()))
        result = train_epochs(trainer, config.epochs)
        weights = {name: value.clone() for name, value in view.model.state_dict().items()}
        found.append(result | {"predicted": predict(view, weights).numpy().copy()})
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_task_trains_evaluates_and_predicts_as_without(on_workers, kind):
    """Classes, several labels, values, links, sparse features, a training subgraph."""
    for saved, plain in on_workers(2, task_here, kind, {}):
        words = difference(saved["epochs"], plain["epochs"], EXACT)
        assert not words, words
        last = {"predicted": saved["predicted"]}, {"predicted": plain["epochs"][-1]["logits"]}
        assert not difference([last[0]], [last[1]], EXACT)
        assert sum(saved["sent"]) < sum(plain["sent"])


WIRES = {
    "late": {"freshness.mode": "delayed"},
    "one bit": {"rate.bits": 1},
    "late bits": {"rate.bits": 1, "freshness.mode": "delayed", "freshness.smoothing": 0.5},
    "columns": {"rate.ratio": 3.0, "rate.rescale": True},
    "rows": {"rate.rows": 0.3},
    "changes": {"rate.bits": 1, "rate.decay": 0.8, "wire.rows": "hidden"},
}


@pytest.mark.parametrize("wire", [
    "late bits", *(pytest.param(name, marks=pytest.mark.slow) for name in WIRES if name != "late bits")
])  # fmt: skip
def test_where_nothing_travels_no_wire_loses_anything(on_workers, wire):
    """Two layers, the first of them at home, are exact under every code and freshness."""
    config = make_config("sage", layers=2).replace(HOME | WIRES[wire])
    compare_dense(on_workers(2, train_here, "plain", "random", config), "plain", config)


def straight_here(rank: int, run: str, config: Config) -> tuple[dict[str, Any], dict[str, bool]]:
    trainer = recipe_trainer(rank, run, config)
    return run_in_one_go(trainer), trainer.runner.savings.chosen


def interrupted_here(rank: int, run: str, config: Config) -> tuple[str, dict[str, Any]]:
    return run_in_two(partial(recipe_trainer, rank, run, config), 5, asked=rank == 0)


@pytest.mark.parametrize("recipe", ["exact", pytest.param("two-levels", marks=pytest.mark.slow), "half"])
def test_runs_resume_exactly(on_workers, tmp_path, recipe):
    late = {"freshness__mode": "delayed"} if recipe == "half" else {}
    config = config_of(recipe, **late, wire__first_layer="local", wire__cover="on")
    straight = on_workers(2, straight_here, str(tmp_path / "one"), config)
    assert all(chosen["at_home"] and chosen["covers"] for _, chosen in straight)
    halves = on_workers(2, interrupted_here, str(tmp_path / "two"), config)
    for (want, _), (status, got) in zip(straight, halves, strict=True):
        assert status == "stopped"
        assert_same(got, want)


def resumed_otherwise(rank: int, run: str, config: Config) -> str:
    trainer = recipe_trainer(rank, run, config)
    trainer.resume()
    return trainer.recut


def test_a_run_that_saves_otherwise_than_before_starts_its_wire_afresh(on_workers, tmp_path):
    run = str(tmp_path / "run")
    late = {"freshness__mode": "delayed"}
    on_workers(2, straight_here, run, config_of("exact", **late, wire__first_layer="local"))
    found = on_workers(2, resumed_otherwise, run, config_of("exact", **late, wire__plain=True))
    assert found == ["the rows that need not travel are others than before"] * 2
