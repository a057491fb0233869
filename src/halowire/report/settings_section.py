"""The report's section on settings: all of one run, what differs between several, the command that repeats a run."""

from __future__ import annotations

import json
import re

from halowire.report.figures import Named
from halowire.report.markup import Html, join, tag
from halowire.report.settings import by_group, command, flatten, words
from halowire.report.tables import fold, table
from halowire.report.units import NOTHING


def grouped(one: Named) -> Html | None:
    """All settings of a run, in groups."""
    found = by_group(one.run.config)
    if not found:
        return None
    return tag(
        "div",
        *(
            tag("div", tag("h3", name), table([], rows, f"Settings: {name}", class_="words"), class_="group")
            for name, rows in found
        ),
        class_="columns",
    )


def differing(runs: list[Named]) -> Html | None:
    """The settings in which the runs differ, run by run; the shared ones folded away."""
    flat = [dict(flatten(one.run.config)) for one in runs]
    names = [name for name in dict.fromkeys(name for one in flat for name in one) if name != "run.shards"]
    if not names:
        return None
    rows = {name: [words(one[name]) if name in one else NOTHING for one in flat] for name in names}
    apart = [[name, *cells] for name, cells in rows.items() if len(set(cells)) > 1]
    shared = [[name, cells[0]] for name, cells in rows.items() if len(set(cells)) == 1]
    head = ["setting", *(one.label for one in runs)]
    if len(head) > len(apart) + 3:
        # Many runs, few settings: the table grows down the page instead of out of it.
        head, *apart = map(list, zip(head, *apart, strict=True))
        head[0] = "run"
    return join(
        table(head, apart, "Settings that differ")
        if apart and len(head) > 1
        else tag("p", "All settings are equal.", class_="quiet"),
        fold(
            f"{len(shared)} settings that all runs share",
            table([], shared, "Settings that all runs share", class_="words"),
        ),
    )


def repeat(one: Named, several: bool) -> Html:
    """The command, and the settings as they were recorded; folded away where there are several."""
    line = tag("pre", *unbroken(command(one.run)), class_="command")
    recorded = tag("pre", json.dumps(one.run.config, indent=2, ensure_ascii=False), tabindex="0")
    if several:
        return fold(one.label, line)
    return join(line, fold("config.json", recorded) if one.run.config else None)


def unbroken(line: str) -> list[object]:
    """The command in pieces that a narrow page does not break: a flag stays with its value."""
    return [piece if piece.isspace() else tag("span", piece) for piece in re.split(r"(\n? +(?=--))", line)]
