"""Tasks and recipes with each reduction of what travels and with all of them: they keep working, or are refused."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from halowire.errors import InputError
from halowire.training import Config, GraphParallel, Situation, Trainer, mesh_of, predict, refuse
from tests.support.device_graphs import KINDS, part_of, trained_part
from tests.support.epochs import EXACT, difference, train_epochs
from tests.support.machines import transport_for
from tests.support.recipe_case import ALL, config_of, recipe_trainer
from tests.support.resumed import assert_same, run_in_one_go, run_in_two

WORKERS = 4
HOME, COVER, HOSTS = {"wire.first_layer": "local"}, {"wire.cover": "on"}, {"mesh.hosts": 2}
SAVINGS: dict[str, dict[str, Any]] = {"home": HOME, "cover": COVER, "hosts": HOSTS, "all": HOME | COVER | HOSTS}
DECAY, NONE = "rows travel before dropout", "no rows travel"
PIPELINE = dict.fromkeys(SAVINGS, "chunk")
REFUSED: dict[str, dict[str, str]] = {
    "sylvie-3d": dict.fromkeys(("cover", "hosts", "all"), "--rate.nodes degree"),
    "bns": dict.fromkeys(("hosts", "all"), "--rate.rows"),
    "isolated": dict.fromkeys(("cover", "all"), NONE),
    "first-layer": dict.fromkeys(("cover", "all"), NONE),
    "halowire-late": dict.fromkeys(("cover", "all"), DECAY),
    "halowire": dict.fromkeys(("cover", "all"), DECAY),
    "halowire-classic": dict.fromkeys(("cover", "all"), DECAY),
    "delta": dict.fromkeys(("cover", "all"), DECAY),
    "pipeline": PIPELINE,
    "gnnpipe": PIPELINE,
    "hybrid": PIPELINE,
    "gnnpipe-1bit": PIPELINE | dict.fromkeys(("cover", "all"), DECAY),
}
"""By recipe, the reductions that are refused, and words of the reason."""
TASKS = [(kind, saving) for kind in KINDS for saving in SAVINGS]
RECIPES = [(recipe, saving) for recipe in ALL for saving in SAVINGS]
QUICK_TASKS = [("links", "all"), ("inductive", "all"), ("labels", "hosts")]
QUICK_RECIPES = [("exact", "all"), ("sylvie-a", "all"), ("halowire", "hosts")]


def marked(cases: list[tuple[str, str]], quick: list[tuple[str, str]]) -> list[Any]:
    return [case if case in quick else pytest.param(*case, marks=pytest.mark.slow) for case in cases]


def task_here(rank: int, kind: str, saving: str) -> list[dict[str, Any]]:
    """Epochs and predictions of this worker with what saves, and without."""
    found = []
    more = {"links": {"task.kind": "link"}, "values": {"task.kind": "regression"}}.get(kind, {})
    for savings in (SAVINGS[saving], {"wire.plain": True}):
        config = Config().replace({"model.hidden": 16, "seed": 11, "epochs": 3, "wire.cover": "off"} | more | savings)
        transport = transport_for(config)
        whole, links = part_of(kind, config, transport, torch.device("cpu"))
        train = trained_part(kind, config, transport, whole)
        view = GraphParallel(train, whole, config, transport, task=links)
        result = train_epochs(Trainer(view, config, transport, Path(tempfile.mkdtemp())), config.epochs)
        weights = {name: value.clone() for name, value in view.model.state_dict().items()}
        found.append(result | {"predicted": predict(view, weights).numpy().copy()})
    return found


@pytest.mark.parametrize(("kind", "saving"), marked(TASKS, QUICK_TASKS))
def test_every_task_trains_evaluates_and_predicts_as_without(on_workers, kind, saving):
    """Classes, several labels, values, links, sparse features, a training subgraph."""
    results = on_workers(WORKERS, task_here, kind, saving)
    for saved, plain in results:
        words = difference(saved["epochs"], plain["epochs"], EXACT)
        assert not words, words
        last = {"predicted": saved["predicted"]}, {"predicted": plain["epochs"][-1]["logits"]}
        assert not difference([last[0]], [last[1]], EXACT)
    assert sum(sum(saved["sent"]) for saved, _ in results) < sum(sum(plain["sent"]) for _, plain in results)


def settings_of(recipe: str, saving: str) -> Config:
    return config_of(recipe).replace({"wire.plain": False} | SAVINGS[saving])


def trainer_here(rank: int, run: str, config: Config) -> Trainer:
    return recipe_trainer(rank, run, config, transport_for(config))


def straight_here(rank: int, run: str, config: Config) -> tuple[dict[str, Any], float]:
    trainer = trainer_here(rank, run, config)
    return run_in_one_go(trainer), trainer.progress.train_loss


def interrupted_here(rank: int, run: str, config: Config) -> tuple[str, dict[str, Any]]:
    return run_in_two(lambda: trainer_here(rank, run, config), 5, asked=rank == 0)


@pytest.mark.parametrize("saving", SAVINGS)
@pytest.mark.parametrize("recipe", ALL)
def test_what_is_refused_is_refused_with_the_reason(recipe, saving):
    config, here = settings_of(recipe, saving), Situation(mesh=mesh_of(config_of(recipe), WORKERS))
    reason = REFUSED.get(recipe, {}).get(saving)
    if reason is None:
        refuse(config, here)
        return
    with pytest.raises(InputError, match=reason):
        refuse(config, here)


@pytest.mark.parametrize(("recipe", "saving"), marked(
    [case for case in RECIPES if case[1] not in REFUSED.get(case[0], {})], QUICK_RECIPES
))  # fmt: skip
def test_every_recipe_trains_and_resumes_bit_for_bit(on_workers, tmp_path, recipe, saving):
    config = settings_of(recipe, saving)
    straight = on_workers(WORKERS, straight_here, str(tmp_path / "one"), config)
    assert all(math.isfinite(loss) for _, loss in straight)
    halves = on_workers(WORKERS, interrupted_here, str(tmp_path / "two"), config)
    for (want, _), (status, got) in zip(straight, halves, strict=True):
        assert status == "stopped"
        assert_same(got, want)
