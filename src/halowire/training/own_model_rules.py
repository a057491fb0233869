"""The rules of a model, a loop or a codec of the user's own: settings that do not go with them."""

from __future__ import annotations

from collections.abc import Sequence

from halowire.training.config import Config, MeshConfig
from halowire.training.rule import Kind, Rule, Setting, changed, excludes, idle, parse_settings
from halowire.training.situation import Caller, Situation

CODED = "rate.bits rate.backward_bits rate.share rate.base rate.nodes rate.layers"
"""Settings that decide on the bits of a value."""


def _all_of(*groups: str) -> list[str]:
    return [name for name in Config().flat() if name.startswith(groups)]


def _all_but(*groups: str) -> list[str]:
    return [name for name in Config().flat() if not name.startswith(groups)]


def _unused(caller: Caller, names: Sequence[str], on: str, way_out: str = "") -> Rule:
    """The settings ``names``, which ``caller`` has no use for, are refused where the user gave them."""
    settings = tuple(Setting(name) for name in names)

    def broken_by(config: Config, here: Situation) -> list[str]:
        given = (name.replace("-", "_") for name in here.given)
        return [name for name in given if name in names] if here.caller == caller else []

    return Rule(settings, Kind.IDLE, broken_by, f"on {on}", "the setting {setting} has no effect {note}", way_out)


def _coded(config: Config, here: Situation) -> list[str]:
    return changed(config, parse_settings(CODED)) if here.codec else []


OWN_MODEL_RULES = (
    _unused(
        "distribute",
        _all_but("rate.", "freshness.", "seed", "epochs"),
        "a distributed model",
        "it uses rate.* and freshness.*",
    ),
    _unused("fit", _all_of("model.", "mesh.", "graph."), "a model of one's own"),
    _unused("pairs", _all_but("task.", "seed"), "pairs", "they depend on task.* and seed"),
    excludes(
        "task.inductive",
        "fit",
        lambda c, here: here.caller == "fit" and c.task.inductive,
        "fit trains a model of one's own in float32 on the whole graph",
        "leave task.inductive out",
    ),
    idle(
        "rate.weights",
        "in a loop of one's own, which sums the weight gradients in float32",
        lambda c, here: here.caller == "distribute",
        way_out="leave it out, or train with halowire.fit",
    ),
    excludes(
        "freshness.mode=never",
        "a model of one's own",
        lambda c, here: here.own_model and c.freshness.mode == "never",
        "recipe {recipe} leaves out the edges between workers; a model of one's own sees all edges: give it a graph "
        "without them, or another recipe",
    ),
    excludes(
        "mesh.stages mesh.parts mesh.chunks",
        "a model of one's own",
        lambda c, here: here.own_model and c.mesh != MeshConfig(),
        "recipe {recipe} splits the layers over the workers; a model of one's own has all of them on every worker: "
        "use a recipe without stages, such as sylvie-a",
    ),
    idle(
        "rate.resend_input",
        "on a model of one's own, which decides itself what it reads of its input",
        lambda c, here: here.own_model,
    ),
    excludes(
        "rate.schedule=budget",
        "--rate.nodes degree and a model of one's own",
        lambda c, here: here.own_model and c.rate.schedule == "budget" and c.rate.nodes == "degree",
        "--rate.schedule budget does not plan for --rate.nodes degree with a model of one's own",
        "drop one of them",
    ),
    idle(
        "rate.decay rate.gain",
        "on a model that drops values or edges before its rows travel",
        lambda c, here: here.drops and c.rate.decay >= 0,
        sentence="--rate.decay {rate.decay:g} codes changes of rows, but this model drops values or edges before its "
        "rows travel, which changes all of them in every epoch",
        way_out="set its dropout to 0, or use a recipe without changes, such as two-levels",
    ),
    Rule(
        parse_settings(CODED),
        Kind.EXCLUDES,
        _coded,
        "a codec of one's own",
        "a codec of one's own decides on the bits of a value, and so does --{flag} {value}",
        "drop one, or use a recipe that sends float32 (exact, pipegcn, varco, bns)",
    ),
    excludes(
        "rate.schedule=budget",
        "a codec of one's own",
        lambda c, here: here.codec and c.rate.schedule == "budget",
        "--rate.schedule budget cannot plan with a codec of one's own",
        "use another schedule",
    ),
)
