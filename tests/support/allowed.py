"""Which combinations of settings the rules allow, so that lists of cases are made by the rules, not beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from halowire.errors import InputError
from halowire.training import Config, Situation, mesh_of, refuse
from halowire.training.rule import Caller

LINKS: dict[str, Any] = {"task__kind": "link", "task__train_negatives": 2}
OF_KIND: dict[str, dict[str, Any]] = {"links": LINKS, "inductive": {"task__inductive": True}}
"""The settings that a kind of graph needs, see `device_graphs.KINDS`."""


def allowed(config: Config, workers: int = 2, caller: Caller = "train", drops: bool = False) -> bool:
    """Whether ``caller`` may use the settings with so many workers; ``drops``: on a model that drops edges."""
    return not why_refused(config, workers, caller, drops)


def why_refused(config: Config, workers: int = 2, caller: Caller = "train", drops: bool = False) -> str:
    """The message with which the settings are refused; empty where they are allowed."""
    try:
        refuse(config, Situation(mesh_of(config, workers), caller, drops=drops))
    except InputError as error:
        return str(error)
    return ""


def refused(configs: Iterable[Config], workers: int = 2, caller: Caller = "train") -> list[str]:
    """The messages of all ``configs`` that the rules refuse: a list of cases must have none."""
    return [f"{config.flat()}: {words}" for config in configs if (words := why_refused(config, workers, caller))]
