"""The settings of a run, those that differ between runs, and the command or call that repeats a run or comparison."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from halowire.report.facts import ShownRun
from halowire.report.markup import Html, fold, join, table, tag
from halowire.report.units import NOTHING, Json, as_object

WIDE = 96
"""The most characters in a line of a command; further flags go to the next line."""
NOT_FLAGS = ("recipe", "workers", "out", "quiet", "run")
"""Groups of `config.json` that are no flags, or that already stand in the first line of the command."""


def settings_by_group(one: ShownRun) -> Html | None:
    """All settings of a run, in groups; None if no settings were recorded."""
    found = by_group(one.files.config)
    if not found:
        return None
    groups = (
        tag("div", tag("h3", name), table([], rows, f"Settings: {name}", class_="words"), class_="group")
        for name, rows in found
    )
    return tag("div", *groups, class_="columns")


def differing_settings(runs: list[ShownRun]) -> Html | None:
    """The settings in which the runs differ, run by run; shared settings are folded away."""
    flat = [dict(_flat(one.files.config)) for one in runs]
    names = [name for name in dict.fromkeys(name for one in flat for name in one) if name != "run.shards"]
    if not names:
        return None
    rows = {name: [_words(one.get(name)) for one in flat] for name in names}
    apart = [[name, *cells] for name, cells in rows.items() if len(set(cells)) > 1]
    shared = [[name, cells[0]] for name, cells in rows.items() if len(set(cells)) == 1]
    head = ["setting", *(one.label for one in runs)]
    if len(head) > len(apart) + 3:
        # With many runs and few settings, the table gets a row per run, so that it grows down the page.
        head, *apart = map(list, zip(head, *apart, strict=True))
        head[0] = "run"
    equal = tag("p", "All settings are equal.", class_="quiet")
    everywhere = "settings that all runs share"
    return join(
        table(head, apart, "Settings that differ") if apart and len(head) > 1 else equal,
        fold(f"{len(shared)} {everywhere}", table([], shared, everywhere.capitalize(), class_="words")),
    )


def repeat(one: ShownRun, several: bool) -> Html:
    """The command that repeats a run, and its recorded settings; folded away if there are several runs."""
    config = one.files.config
    box = _command_box(command(one))
    if several:
        return fold(one.label, box)
    recorded = tag("pre", json.dumps(config, indent=2, ensure_ascii=False), tabindex="0")
    return join(box, fold("config.json", recorded) if config else None)


def repeat_comparison(record: Json) -> Html:
    """The command that repeats a comparison."""
    words = ["halowire", "compare", str(record.get("source") or record["graph"])]
    words += ["--recipes", ",".join(record["recipes"]), "--workers", str(record["workers"])]
    words += ["--seeds", str(len(record["seeds"]))]
    if record["seeds"] and record["seeds"][0]:
        words += ["--seed", str(record["seeds"][0])]
    flags = [_flag(name, value) for name, value in _given(record["settings"], ())]
    return _command_box(" ".join([shlex.join(words), *flags, "--out DIR"]))


def _command_box(line: str) -> Html:
    """A command in pieces that a narrow page does not break: a flag stays with its value."""
    pieces = re.split(r"(\n? +(?=--))", line)
    return tag("pre", *(piece if piece.isspace() else tag("span", piece) for piece in pieces), class_="command")


def by_group(config: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The settings in groups by the first part of their dotted name; undotted names come first, as ``run``."""
    result: dict[str, list[tuple[str, str]]] = {"run": []}
    for name, value in _flat(config):
        group, _, rest = name.partition(".")
        result.setdefault(group if rest else "run", []).append((rest or group, _words(value)))
    return [(group, rows) for group, rows in result.items() if rows]


def command(one: ShownRun) -> str:
    """The shell command that repeats the run, with every setting, so that later defaults cannot change the run.

    For the user's own model it is a call of `halowire.fit` in the program that has the model.
    """
    known, config = one.facts, one.files.config
    job = as_object(config.get("run"))
    if job.get("own_model"):
        return _call(one)
    start = ["halowire", "train", str(job.get("source") or job.get("graph") or known["graph"])]
    if known["recipe"]:
        start += ["--recipe", str(known["recipe"])]
    start += ["--workers", str(known["workers"])]
    rows = [shlex.join(start)]
    for name, value in _given(config, NOT_FLAGS):
        flag = _flag(name, value)
        # The first line holds only what a person would type.
        if len(rows) > 1 and len(rows[-1]) + len(flag) < WIDE:
            rows[-1] += f" {flag}"
        else:
            rows.append(flag)
    return " \\\n  ".join(rows)


def _flag(name: str, value: Any) -> str:
    """The words of a flag in a shell command; a setting that is on needs no value."""
    return f"--{name}" if value is True else shlex.join([f"--{name}", str(value)])


def _call(one: ShownRun) -> str:
    """The call of `halowire.fit` that repeats a run of the user's own model, with every setting that applies to it."""
    settings = {name.replace("-", "_"): value
                for name, value in _given(one.files.config, (*NOT_FLAGS, "model", "mesh", "graph"))}  # fmt: skip
    rows = [f"    {name!r}: {value!r}," for name, value in settings.items()]
    known = one.facts
    start = f"halowire.fit(model, data, workers={known['workers']}, recipe={known['recipe']!r}, settings={{"
    return "\n".join([start, *rows, "})"])


def _given(config: Mapping[str, Any], left_out: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The settings that have a value, without the groups ``left_out``; a setting that is off needs no flag."""
    for name, value in _flat(config):
        if value is not None and value is not False and value != "" and name.partition(".")[0] not in left_out:
            yield name, value


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as dotted names, hyphens for underscores, in their order."""
    for name, value in values.items():
        dotted = f"{prefix}{name}".replace("_", "-")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{dotted}.")
        else:
            yield dotted, value


def _words(value: Any) -> str:
    """The value of a setting; a dash where it has none."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value)
