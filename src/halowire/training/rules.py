"""The table of rules: what every setting takes, needs and excludes, and where it has no effect.

`train`, `compare`, `fit` and `distribute` refuse what breaks a rule; docs/settings.md is made from the table.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from halowire.errors import InputError
from halowire.events import HITS, LINK_METRICS
from halowire.training.config import Config
from halowire.training.mesh_rules import MESH_RULES
from halowire.training.own_model_rules import OWN_MODEL_RULES
from halowire.training.recipes import RECIPES, filled_groups
from halowire.training.rule import Kind, Rule, excludes, idle, needs, within
from halowire.training.situation import Situation
from halowire.training.wire_rules import WIRE_RULES

LONGEST_WAIT = 1e6
THREADS_PER_CORE = 8
LINKS_LEARN = (
    "--task link learns from the edges of all nodes, by cross entropy: leave --task.inductive and --task.loss out"
)
NOWHERE = Situation()
"""Nothing is known but the settings."""


def _cores() -> int:
    return os.cpu_count() or 1


def _link(config: Config) -> bool:
    return config.task.kind == "link"


def _learns_nodes(config: Config, here: Situation) -> bool:
    """Whether links are to be learnt with settings that nodes are learnt with."""
    return _link(config) and (config.task.inductive or config.task.loss != "auto")


NUMBERS = (
    within(
        "epochs model.layers model.hidden eval.every optim.step_every mesh.history task.negatives task.train_negatives",
        "be at least 1",
        lambda number: number >= 1,
    ),
    within(
        "early_stop threads seed checkpoint.every optim.warmup optim.clip optim.weight_decay",
        "be at least 0",
        lambda number: number >= 0,
    ),
    within(
        "mesh.stages mesh.parts mesh.chunks", "be at least 1, or 0 to let halowire choose", lambda number: number >= 0
    ),
    within("seed", "be below 2**63", lambda seed: seed < 2**63),
    within("model.dropout", "lie in 0 <= p < 1", lambda share: 0 <= share < 1),
    within("model.residual", "lie in 0 <= r < 1", lambda share: 0 <= share < 1),
    within("optim.lr optim.step_factor", "be above 0 and finite", lambda number: 0 < number < float("inf")),
    within(
        "deadline", f"be above 0 and at most {LONGEST_WAIT:.0f} seconds", lambda seconds: 0 < seconds <= LONGEST_WAIT
    ),
    within(
        "threads",
        f"be at most {THREADS_PER_CORE} times the {{cores}} cores of this machine",
        lambda threads: threads <= THREADS_PER_CORE * _cores(),
        lambda c, here: {"cores": _cores()},
    ),
    within("task.val_share task.test_share", "lie in 0 < s < 1", lambda share: 0 < share < 1),
)
TASKS = (
    idle(
        "partition.metis partition.balance",
        "without --partition.method metis",
        lambda c, here: c.partition.method != "metis",
    ),
    idle(
        "optim.step_every optim.step_factor",
        "without --optim.schedule step",
        lambda c, here: c.optim.schedule != "step",
    ),
    idle(
        "task.val_share task.test_share task.negatives task.train_negatives",
        "without --task link",
        lambda c, here: not _link(c),
    ),
    needs(
        "task.kind=link",
        f"one of the metrics {', '.join(LINK_METRICS)}",
        lambda c, here: _link(c) and c.task.metric not in ("auto", *LINK_METRICS),
        "metric {task.metric} has no meaning for links",
        "use one of {metrics}",
        lambda c, here: {"metrics": ", ".join(LINK_METRICS)},
    ),
    needs(
        "task.metric",
        "as many --task.negatives as its number, for links",
        lambda c, here: _link(c) and HITS.get(c.task.metric, 0) > c.task.negatives,
        "--task.metric {task.metric} is always 1 among {task.negatives} negatives",
        "give more of them",
    ),
    *(excludes(f"task.kind=link {other}", "", _learns_nodes, LINKS_LEARN) for other in ("task.inductive", "task.loss")),
    excludes(
        "task.kind=link freshness.mode=never",
        "",
        lambda c, here: _link(c) and c.freshness.mode == "never",
        "--task link learns edges between workers too, which --freshness.mode never leaves out",
    ),
)
RULES: tuple[Rule, ...] = (*NUMBERS, *TASKS, *OWN_MODEL_RULES, *WIRE_RULES, *MESH_RULES)


def refuse(config: Config, here: Situation = NOWHERE) -> None:
    """Refuse settings that break a rule: the first rule of the table that is broken says so."""
    for rule in RULES:
        names = rule.broken_by(config, here)
        if names and not _optional(rule, names, config):
            raise InputError(rule.message(names[0], config, here))


def settled(config: Config, here: Situation) -> Config:
    """``config`` without the optional parts of its recipe that have no effect ``here``; the rest is refused."""
    refuse(config, here)
    default = Config().flat()
    names = (name for rule in RULES if rule.kind is Kind.IDLE for name in rule.broken_by(config, here))
    return config.replace({name: default[name] for name in names})


def idle_settings(config: Config) -> dict[str, str]:
    """The settings that have no effect, each with the reason: ``has no effect ...``.

    Only those of groups that recipes fill: the others have or have no effect whatever the recipe.
    """
    found: dict[str, str] = {}
    for rule in RULES:
        names = rule.broken_by(config, NOWHERE) if rule.kind is Kind.IDLE else ()
        for name in names if not _optional(rule, names, config) else ():
            found.setdefault(name, rule.reason(name, config, NOWHERE))
    return {name: reason for name, reason in found.items() if name.partition(".")[0] in filled_groups()}


def _optional(rule: Rule, names: Sequence[str], config: Config) -> bool:
    """Whether ``names`` have no effect, but are parts of the recipe that it goes on without."""
    recipe = RECIPES.get(config.recipe)
    if recipe is None or rule.kind is not Kind.IDLE:
        return False
    own, now = recipe.config.flat(), config.flat()
    return all(name in recipe.optional and own[name] == now[name] for name in names)
