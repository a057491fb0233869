"""The settings of a run as words: flat names, groups, and the command that repeats the run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from halowire.report.facts import facts
from halowire.report.run import Run
from halowire.report.units import NOTHING

WIDE = 96
NOT_FLAGS = ("recipe", "workers", "out", "quiet", "run")


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as dotted names, hyphens for underscores, in their order."""
    for name, value in values.items():
        dotted = f"{prefix}{name}".replace("_", "-")
        if isinstance(value, Mapping):
            yield from flatten(value, f"{dotted}.")
        else:
            yield dotted, value


def words(value: Any) -> str:
    """A setting's value."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value)


def by_group(config: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The settings in groups by the first part of their name; those without one come first, as ``run``."""
    result: dict[str, list[tuple[str, str]]] = {"run": []}
    for name, value in flatten(config):
        group, _, rest = name.partition(".")
        result.setdefault(group if rest else "run", []).append((rest or group, words(value)))
    return [(group, rows) for group, rows in result.items() if rows]


def call(run: Run) -> str:
    """The call that repeats a run of a model of one's own, with every setting that it has a use for."""
    known, idle = facts(run), (*NOT_FLAGS, "model", "mesh", "graph")
    settings = {
        name.replace("-", "_"): value
        for name, value in flatten(run.config)
        if name.partition(".")[0] not in idle and value not in (None, False, "")
    }
    rows = [f"    {name!r}: {value!r}," for name, value in settings.items()]
    start = f"halowire.fit(model, data, workers={known['workers']}, recipe={known['recipe']!r}, settings={{"
    return "\n".join([start, *rows, "})"])


def command(run: Run) -> str:
    """The shell command that repeats the run, every setting spelt out: later defaults cannot change it.

    Of a model of one's own it is a call in the program that has the model.
    """
    known = facts(run)
    job = run.config.get("run")
    job = job if isinstance(job, Mapping) else {}
    if job.get("own_model"):
        return call(run)
    start = ["halowire", "train", str(job.get("source") or job.get("graph") or known["graph"])]
    if known["recipe"]:
        start += ["--recipe", str(known["recipe"])]
    start += ["--workers", str(known["workers"])]
    rows = [shlex.join(start)]
    for name, value in flatten(run.config):
        unset = value is None or value is False or value == ""
        if unset or name.partition(".")[0] in NOT_FLAGS:
            continue
        flag = f"--{name}" if value is True else shlex.join([f"--{name}", str(value)])
        # The first line stays what a person would type.
        if len(rows) > 1 and len(rows[-1]) + len(flag) < WIDE:
            rows[-1] += f" {flag}"
        else:
            rows.append(flag)
    return " \\\n  ".join(rows)
