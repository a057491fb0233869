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


def command(run: Run) -> str:
    """The shell command that repeats the run, every setting spelt out: later defaults cannot change it."""
    known = facts(run)
    job = run.config.get("run")
    job = job if isinstance(job, Mapping) else {}
    start = ["halowire", "train", str(job.get("graph") or known["graph"])]
    if known["recipe"]:
        start += ["--recipe", str(known["recipe"])]
    start += ["--workers", str(known["workers"])]
    flags: dict[str, list[str]] = {}
    for name, value in flatten(run.config):
        group = name.partition(".")[0] if "." in name else ""
        if (group or name) in NOT_FLAGS or value is None or value is False or isinstance(value, list):
            continue
        flags.setdefault(group, []).extend([f"--{name}"] if value is True else [f"--{name}", str(value)])
    rows = [shlex.join(start)]
    for row in map(shlex.join, flags.values()):
        # Small groups share a line; the first line stays what a person would type.
        if len(rows) > 1 and len(rows[-1]) + len(row) < WIDE:
            rows[-1] += f" {row}"
        else:
            rows.append(row)
    return " \\\n  ".join(rows)
