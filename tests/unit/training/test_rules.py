"""The table of rules: every sentence can be said, every setting exists, optional parts of recipes go without a word."""

from __future__ import annotations

import re

import pytest

from halowire.errors import InputError
from halowire.layers import MODELS
from halowire.schedules import Mesh
from halowire.training import RECIPES, RULES, Config, Kind, Situation, mesh_of, recipe_config, refuse, settled
from halowire.training.recipes import filled_groups
from halowire.training.rules import idle_settings

BROKEN = {
    "range": ({"model.dropout": 1.0}, Situation(), "--model.dropout is 1.0; it must lie in 0 <= p < 1"),
    "threads": ({"threads": 10**6}, Situation(), r"it must be at most 8 times the \d+ cores of this machine"),
    "off": ({"rate.decay": float("nan")}, Situation(), "--rate.decay is nan; it must lie in 0 <= g <= 1"),
    "rows": ({"rate.rows": 0.0}, Situation(), "--rate.rows is 0.0; it must lie in 0 < p <= 1"),
    "late": ({"freshness.sync_every": -1}, Situation(), "at least 1, or 0 for never"),
    "partition": (
        {"partition.method": "random", "partition.metis": "kway"},
        Situation(),
        "--partition.metis has no effect without --partition.method metis; leave it out",
    ),
    "steps": ({"rate.schedule": "steps", "rate.steps": "5:3"}, Situation(), "must start at 0 and ascend"),
    "sampled grades": (
        {"rate.bits": 1, "rate.nodes": "degree", "rate.rows": 0.5}, Situation(), "only some are sampled",
    ),
    "links": ({"task.kind": "link", "mesh.chunks": 2}, Situation(Mesh(1, 1, 2)), "in one stage and one chunk"),
    "a model in one piece": (
        {"model.name": "gat", "mesh.chunks": 2},
        Situation(Mesh(1, 1, 2)),
        "--model.name gat runs in one stage and one chunk",
    ),
    "sums of scores": (
        {"model.name": "gat", "wire.cover": "on"}, Situation(), "weighs every row by its own score",
    ),
    "sums of changes": ({"rate.bits": 1, "rate.decay": 0.5, "wire.cover": "on"}, Situation(), "travel before dropout"),
    "sums of grades": ({"rate.bits": 1, "rate.nodes": "degree", "wire.cover": "on"}, Situation(), "bits of its own"),
    "bits of sampled sums": (
        {"rate.bits": 1, "rate.rows": 0.5, "rate.sums": 4}, Situation(), "--rate.sums and --rate.rows do not",
    ),
    "bits of no sums": ({"rate.bits": 1, "rate.sums": 4, "wire.cover": "off"}, Situation(), "no partial sums travel"),
    "bits of sums that are few": ({"rate.bits": 4, "rate.sums": 2}, Situation(), "have as many bits already"),
    "attention at home": (
        {"model.name": "gat", "wire.first_layer": "local"}, Situation(), "weights its neighbours anew in every epoch",
    ),
    "chunks at home": (
        {"wire.first_layer": "local", "mesh.chunks": 2}, Situation(Mesh(1, 1, 2)), "runs in one stage and one chunk",
    ),
    "plain sums": ({"wire.plain": True, "wire.cover": "on"}, Situation(), "sends all rows themselves"),
    "a plain layer at home": ({"wire.plain": True, "wire.first_layer": "local"}, Situation(), "of every layer"),
    "plain rows that are squeezed": ({"wire.plain": True, "wire.squeeze": "on"}, Situation(), "sends all rows as they"),
    "nothing to squeeze": ({"wire.squeeze": "on"}, Situation(Mesh(2, 1, 4)), "in stages of one part"),
    "a fast link for what is not chosen": (
        {"wire.first_layer": "local", "wire.link": 1000.0}, Situation(), "up to 200, --wire.squeeze auto",
    ),
    "a link for nothing": ({"wire.plain": True, "wire.link": 10.0}, Situation(), "without --wire.first-layer auto"),
    "sums of chunks": ({"wire.cover": "on", "mesh.chunks": 2}, Situation(Mesh(1, 1, 2)), "needs all halo rows of a"),
    "heads": ({"model.heads": 2}, Situation(), "has no effect on a model without attention; leave it out, or use gat"),
    "residual": ({"model.name": "resgcn", "model.residual": 0.5}, Situation(), "hidden layers of gcn and sage"),
    "unused by distribute": ({"optim.lr": 0.01}, Situation(caller="distribute", given=("optim.lr",)), "optim.lr has"),
    "unused by fit": ({"model.hidden": 256}, Situation(caller="fit", given=("model.hidden",)), "model.hidden has no"),
    "inductive fit": ({"task.inductive": True}, Situation(caller="fit"), "leave task.inductive out"),
    "bits beside a codec": ({"rate.bits": 8}, Situation(codec=True), "and so does --rate.bits 8; drop one"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_a_rule_is_refused(name):
    settings, here, words = BROKEN[name]
    with pytest.raises(InputError, match=words):
        refuse(Config().replace(settings), here)


def test_every_setting_of_a_rule_exists_and_every_sentence_can_be_said():
    known, here = Config().flat(), Situation(Mesh(2, 2, 8), outputs=3)
    for rule in RULES:
        assert rule.note or len(rule.settings) > 1, "the page of settings says what a setting excludes"
        for setting in rule.settings:
            assert setting.name in known
            assert "{" not in rule.message(setting.name, Config(), here)


def test_values_that_rules_speak_of_are_possible():
    for rule in RULES:
        for setting in rule.settings:
            if setting.value:
                Config().replace({setting.name: setting.value})


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("model", MODELS)
def test_every_recipe_goes_with_every_model_that_can_be_split(recipe, model):
    config = recipe_config(recipe).replace({"model.name": model, "model.layers": 4})
    here = Situation(mesh_of(config, 4))
    whole = not MODELS[model].can_split and here.mesh.stages > 1
    sampled = MODELS[model].takes_heads and config.rate.rows < 1
    optional = "wire.first_layer" in RECIPES[recipe].optional
    copied = MODELS[model].takes_heads and config.wire.first_layer == "local" and not optional
    if whole or sampled or copied:
        with pytest.raises(InputError, match=re.escape(f"--model.name {model}")):
            refuse(config, here)
    else:
        refuse(config, here)


def test_optional_parts_of_a_recipe_are_left_out_where_they_have_no_effect():
    drops, own = Situation(caller="fit", drops=True), recipe_config("halowire", own_model=True)
    rate = settled(own, drops).rate
    assert (rate.decay, rate.gain) == (-1, 1) and rate.backward_code == own.rate.backward_code
    assert settled(own, Situation(caller="fit")) == own
    for settings in ({"rate.decay": 0.8}, {"rate.gain": 0.5}):
        with pytest.raises(InputError, match="set its dropout to 0"):
            settled(own.replace(settings), drops)
    refuse(own.replace({"rate.decay": -1.0}), Situation(caller="fit"))
    with pytest.raises(InputError, match=r"--rate\.gain has no effect without --rate\.decay"):
        refuse(Config().replace({"rate.gain": 0.2}))


def test_a_recipe_with_its_first_layer_at_home_names_those_that_are_made_for_stages():
    config = recipe_config("halowire").replace({"mesh.stages": 2})
    with pytest.raises(
        InputError, match=r"leave --mesh\.\* out, or use a recipe that is made for stages: pipeline, gnnpipe"
    ):
        refuse(config, Situation(mesh_of(config, 2)))
    own = recipe_config("exact").replace({"mesh.stages": 2, "wire.first_layer": "local"})
    with pytest.raises(InputError, match=r"or use --wire\.first-layer exchange"):
        refuse(own, Situation(mesh_of(own, 2)))


def test_a_comparison_leaves_out_what_depends_on_the_recipe_alone():
    assert filled_groups() == {"rate", "freshness", "wire", "mesh"}
    settings = {"rate.code": "levels", "freshness.sync_every": 2, "optim.step_every": 5}
    found = idle_settings(Config().replace(settings))
    assert found == {
        "freshness.sync_every": "has no effect without --freshness.mode delayed",
        "rate.code": "has no effect without a rate of 1, 2 or 4 bits",
    }
    assert not idle_settings(recipe_config("halowire-classic").replace({"rate.decay": -1.0}))


def test_optional_parts_are_settings_that_the_recipe_fills():
    default = Config().flat()
    for recipe in RECIPES.values():
        for name in recipe.optional:
            assert recipe.config.flat()[name] != default[name]
            assert any(name in {s.name for s in rule.settings} for rule in RULES if rule.kind is Kind.IDLE)
