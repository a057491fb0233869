"""Settings: dotted overrides, unknown names, wrong types, impossible numbers."""

from __future__ import annotations

import pytest

from halowire.errors import InputError
from halowire.training import RECIPES, Config, recipe_config, refuse


def test_overrides_go_where_they_belong_and_nothing_else_changes():
    config = Config().replace({"model.hidden": 7, "optim.weight-decay": 1, "epochs": 3})
    assert (config.model.hidden, config.optim.weight_decay, config.epochs) == (7, 1.0, 3)
    assert config.replace({"model.hidden": 256, "optim.weight_decay": 0.0, "epochs": 200}) == Config()


def test_json_round_trip():
    config = Config().replace({"model.name": "gcn", "task.inductive": True})
    assert Config.from_dict(config.to_dict()) == config
    assert Config().replace(config.flat()) == config


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model.hiden": 3}, "model.hiden"),
        ({"model": 3}, "model"),
        ({"epochs.more": 3}, "epochs.more"),
        ({"model.hidden": "wide"}, "expected a value of type int"),
        ({"model.hidden": True}, "expected a value of type int"),
        ({"model.name": "gin"}, "expected one of gat, gcn"),
        ({"rate.bits": 3}, "expected one of 32"),
    ],
)
def test_what_is_unknown_or_of_the_wrong_type_is_refused(settings, words):
    with pytest.raises(InputError, match=words):
        Config().replace(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 0}, {"model.layers": 0}, {"model.hidden": 0}, {"model.dropout": 1.0}, {"model.dropout": -0.1},
        {"optim.lr": 0.0}, {"eval.every": 0}, {"checkpoint.every": -1}, {"seed": -1}, {"deadline": 0.0},
        {"optim.lr": float("nan")}, {"optim.lr": float("inf")}, {"seed": 2**63}, {"optim.step_factor": 0.0},
        {"deadline": float("inf")}, {"threads": 100_000},
    ],
)  # fmt: skip
def test_impossible_numbers_are_refused(settings):
    with pytest.raises(InputError, match=r"must|at most"):
        refuse(Config().replace(settings))


@pytest.mark.parametrize("settings", [{"optim.step_every": 5}, {"optim.step_factor": 0.1, "optim.schedule": "cosine"}])
def test_settings_without_effect_are_refused(settings):
    with pytest.raises(InputError, match="no effect"):
        refuse(Config().replace(settings))


def test_recipes_are_complete_and_named():
    for name, recipe in RECIPES.items():
        assert recipe.name == recipe.config.recipe == name
        refuse(recipe_config(name))
    with pytest.raises(InputError, match=r"unknown; known: exact"):
        recipe_config("exactly")
