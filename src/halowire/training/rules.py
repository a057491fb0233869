"""The table of rules says what every setting takes, needs and excludes, and where it has no effect.

`train`, `compare`, `fit` and `distribute` refuse what breaks a rule; docs/settings.md is made from the table.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from halowire.errors import InputError
from halowire.events import HITS, LINK_METRICS
from halowire.training.config import Config, MeshConfig
from halowire.training.mesh_rules import MESH_RULES
from halowire.training.recipes import RECIPES, filled_groups, settings_of
from halowire.training.rule import (
    Caller,
    Kind,
    Rule,
    Setting,
    Situation,
    changed,
    excludes,
    idle,
    needs,
    parse_settings,
    within,
)  # fmt: skip
from halowire.training.wire_rules import WIRE_RULES

LONGEST_WAIT = 1e6
THREADS_PER_CORE = 8
LARGEST_COUNT = 2**31 - 1
COUNTS = (
    "epochs early_stop eval.every checkpoint.every checkpoint.keep model.layers model.hidden optim.warmup "
    "optim.step_every freshness.sync_every mesh.stages mesh.parts mesh.chunks mesh.history task.negatives "
    "task.train_negatives"
)
"""Settings that count something."""
LINKS_LEARN = (
    "--task link learns from the edges of all nodes, by cross entropy: leave --task.inductive and --task.loss out"
)
CODED = "rate.bits rate.backward_bits rate.share rate.base rate.nodes rate.layers"
"""Settings that decide on the bits of a value."""
HOSTS = "mesh.hosts"
"""The setting of the mesh that a model of one's own has, too."""
NOWHERE = Situation()
"""The situation in which nothing is known but the settings."""


def _cores() -> int:
    return os.cpu_count() or 1


def _link(config: Config) -> bool:
    return config.task.kind == "link"


def _learns_nodes(config: Config, here: Situation) -> bool:
    """Whether links are learnt with settings that only learning nodes can use."""
    return _link(config) and (config.task.inductive or config.task.loss != "auto")


def _all_of(*groups: str) -> list[str]:
    return [name for name in Config().flat() if name.startswith(groups)]


def _all_but(*groups: str) -> list[str]:
    return [name for name in Config().flat() if not name.startswith(groups)]


def _unused(caller: Caller, names: Sequence[str], on: str, way_out: str = "") -> Rule:
    """The rule that the user may not give the settings ``names`` to ``caller``, which does not use them."""
    settings = tuple(Setting(name) for name in names)

    def broken_by(config: Config, here: Situation) -> list[str]:
        given = (name.replace("-", "_") for name in here.given)
        return [name for name in given if name in names] if here.caller == caller else []

    return Rule(settings, Kind.IDLE, broken_by, f"on {on}", "the setting {setting} has no effect {note}", way_out)


def _coded(config: Config, here: Situation) -> list[str]:
    return changed(config, parse_settings(CODED)) if here.codec else []


# The tables are laid out by hand: the settings, the note, when the rule is broken, the sentence and the way out.
NUMBERS = (
    within(
        "epochs model.layers model.hidden eval.every checkpoint.keep optim.step_every mesh.history task.negatives "
        "task.train_negatives", "be at least 1", lambda number: number >= 1),
    within("early_stop threads seed checkpoint.every checkpoint.minutes optim.warmup optim.clip optim.weight_decay",
        "be at least 0", lambda number: number >= 0),
    within("mesh.stages mesh.parts mesh.chunks", "be at least 1, or 0 to let halowire choose",
        lambda number: number >= 0),
    within("seed", "be below 2**63", lambda seed: seed < 2**63),
    within(COUNTS, f"be at most {LARGEST_COUNT}", lambda number: number <= LARGEST_COUNT),
    within("optim.clip optim.weight_decay rate.ratio rate.budget checkpoint.minutes", "be finite",
        lambda number: abs(number) < float("inf")),
    within("model.dropout", "lie in 0 <= p < 1", lambda share: 0 <= share < 1),
    within("model.residual", "lie in 0 <= r < 1", lambda share: 0 <= share < 1),
    within("optim.lr optim.step_factor", "be above 0 and finite", lambda number: 0 < number < float("inf")),
    within("deadline", f"be above 0 and at most {LONGEST_WAIT:.0f} seconds",
        lambda seconds: 0 < seconds <= LONGEST_WAIT),
    within("threads", f"be at most {THREADS_PER_CORE} times the {{cores}} cores of this machine",
        lambda threads: threads <= THREADS_PER_CORE * _cores(), lambda c, here: {"cores": _cores()}),
    within("task.val_share task.test_share", "lie in 0 < s < 1", lambda share: 0 < share < 1),
)  # fmt: skip
TASKS = (
    idle("partition.metis", "without --partition.method metis",
        lambda c, here: c.partition.method not in ("metis", "auto")),
    idle("partition.balance", "without --partition.method metis, hypergraph, kaminpar or auto",
        lambda c, here: c.partition.method not in ("metis", "hypergraph", "kaminpar", "auto")),
    idle("optim.step_every optim.step_factor", "without --optim.schedule step",
        lambda c, here: c.optim.schedule != "step"),
    idle("task.val_share task.test_share task.negatives task.train_negatives", "without --task link",
        lambda c, here: not _link(c)),
    needs("task.kind=link", f"one of the metrics {', '.join(LINK_METRICS)}",
        lambda c, here: _link(c) and c.task.metric not in ("auto", *LINK_METRICS),
        "metric {task.metric} has no meaning for links", "use one of {metrics}",
        lambda c, here: {"metrics": ", ".join(LINK_METRICS)}),
    needs("task.metric", "as many --task.negatives as its number, for links",
        lambda c, here: _link(c) and HITS.get(c.task.metric, 0) > c.task.negatives,
        "--task.metric {task.metric} is always 1 among {task.negatives} negatives", "give more of them"),
    *(excludes(f"task.kind=link {other}", "", _learns_nodes, LINKS_LEARN) for other in ("task.inductive", "task.loss")),
    excludes("task.kind=link freshness.mode=never", "", lambda c, here: _link(c) and c.freshness.mode == "never",
        "--task link learns edges between workers too, which --freshness.mode never leaves out"),
)  # fmt: skip
OWN_MODEL = (
    _unused("distribute", _all_but("rate.", "freshness.", "wire.", "seed", "epochs", HOSTS), "a distributed model",
        f"it uses rate.*, freshness.*, wire.* and {HOSTS}"),
    _unused("fit", [name for name in _all_of("model.", "mesh.", "graph.") if name != HOSTS], "a model of one's own"),
    _unused("pairs", _all_but("task.", "seed"), "pairs", "they depend on task.* and seed"),
    excludes("task.inductive", "fit", lambda c, here: here.caller == "fit" and c.task.inductive,
        "fit trains a model of one's own in float32 on the whole graph", "leave task.inductive out"),
    idle("rate.weights", "in a loop of one's own, which sums the weight gradients in float32",
        lambda c, here: here.caller == "distribute", way_out="leave it out, or train with halowire.fit"),
    excludes("freshness.mode=never", "a model of one's own",
        lambda c, here: here.own_model and c.freshness.mode == "never",
        "recipe {recipe} leaves out the edges between workers; a model of one's own sees all edges: give it a graph "
        "without them, or another recipe"),
    excludes("freshness.gradients=none freshness.gradients=shallow", "a model of one's own",
        lambda c, here: here.own_model and c.freshness.gradients in ("none", "shallow"),
        "--freshness.gradients {freshness.gradients} leaves out gradients that a model of one's own needs in its first "
        "layers",
        "leave it out"),
    idle("wire.rows", "on a model of one's own, which decides itself when it multiplies its rows",
        lambda c, here: here.own_model),
    excludes("freshness.mode=late-rows", "a model of one's own",
        lambda c, here: here.own_model and c.freshness.mode == "late-rows",
        "--freshness.mode late-rows corrects rows before dropout, and a model of one's own drops values where halowire "
        "does not see it", "use --freshness.mode delayed, or a recipe of fresh rows, such as halowire"),
    excludes("mesh.stages mesh.parts mesh.chunks", "a model of one's own",
        lambda c, here: here.own_model and replace(c.mesh, hosts=0) != MeshConfig(),
        "recipe {recipe} splits the layers over the workers; a model of one's own has all of them on every worker: "
        "use a recipe without stages, such as sylvie-a"),
    idle("rate.resend_input", "on a model of one's own, which decides itself what it reads of its input",
        lambda c, here: here.own_model),
    excludes("rate.schedule=budget", "--rate.nodes degree and a model of one's own",
        lambda c, here: here.own_model and c.rate.schedule == "budget" and c.rate.nodes == "degree",
        "--rate.schedule budget does not plan for --rate.nodes degree with a model of one's own", "drop one of them"),
    idle("rate.decay rate.gain", "on a model that drops values or edges before its rows travel",
        lambda c, here: here.drops and c.rate.decay >= 0,
        sentence="--rate.decay {rate.decay:g} codes changes of rows, but this model drops values or edges before its "
        "rows travel, which changes all of them in every epoch",
        way_out="set its dropout to 0, or use a recipe without changes, such as two-levels"),
    Rule(parse_settings(CODED), Kind.EXCLUDES, _coded, "a codec of one's own",
        "a codec of one's own decides on the bits of a value, and so does --{flag} {value}",
        "drop one, or use a recipe that sends float32 (exact, pipegcn, varco, bns)"),
    excludes("rate.schedule=budget", "a codec of one's own", lambda c, here: here.codec and c.rate.schedule == "budget",
        "--rate.schedule budget cannot plan with a codec of one's own", "use another schedule"),
)  # fmt: skip
RULES: tuple[Rule, ...] = (*NUMBERS, *TASKS, *OWN_MODEL, *WIRE_RULES, *MESH_RULES)


def refuse(config: Config, here: Situation = NOWHERE) -> None:
    """Refuse settings that break a rule, with the message of the first broken rule of the table."""
    for rule in RULES:
        names = rule.broken_by(config, here)
        if names and not _optional(rule, names, config, here):
            raise InputError(rule.message(names[0], config, here))


def settled(config: Config, here: Situation) -> Config:
    """``config`` without its recipe's optional settings that have no effect ``here``; refuses other broken rules."""
    refuse(config, here)
    default = Config().flat()
    names = (name for rule in RULES if rule.kind is Kind.IDLE for name in rule.broken_by(config, here))
    return config.replace({name: default[name] for name in names})


def idle_settings(config: Config) -> dict[str, str]:
    """The settings that have no effect, each with the reason: ``has no effect ...``.

    Only groups of settings that recipes fill are judged: no recipe changes whether other settings have an effect.
    """
    found: dict[str, str] = {}
    for rule in RULES:
        names = rule.broken_by(config, NOWHERE) if rule.kind is Kind.IDLE else ()
        for name in names if not _optional(rule, names, config, NOWHERE) else ():
            found.setdefault(name, rule.reason(name, config, NOWHERE))
    return {name: reason for name, reason in found.items() if name.partition(".")[0] in filled_groups()}


def _optional(rule: Rule, names: Sequence[str], config: Config, here: Situation) -> bool:
    """Whether all ``names``, which ``rule`` finds without effect or impossible, are optional settings of the recipe."""
    recipe = RECIPES.get(config.recipe)
    if recipe is None or rule.kind not in (Kind.IDLE, Kind.EXCLUDES):
        return False
    recipe = settings_of(recipe, here.own_model)
    own, now = recipe.config.flat(), config.flat()
    return all(name in recipe.optional and own[name] == now[name] for name in names)
