"""The table of the soak: fault, times, outcome, epochs lost, seconds to detect and to recover."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.soak.outcome import BAD, REFUSED, SURVIVED

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
HEAD = "| fault | times | survived | refused clearly | badly | epochs lost, most | s to detect | s to recover |"
Record = dict[str, Any]


def table(faults: Sequence[Record]) -> str:
    """The Markdown table, with a sentence of totals."""
    names = list(dict.fromkeys(sorted(fault["name"] for fault in faults)))
    lines = [HEAD, "| --- |" + " ---: |" * 7]
    lines += [_row(name, [fault for fault in faults if fault["name"] == name]) for name in names]
    lines.append(_row("**all**", faults))
    return "\n".join([totals(faults), "", *lines])


def totals(faults: Sequence[Record]) -> str:
    """How many faults, and how many of each bad end."""
    recipes = list(dict.fromkeys(fault["recipe"] for fault in faults))
    ends = [f"{sum(fault['outcome'] == kind for fault in faults)} {_plural(kind)}" for kind in BAD]
    return (
        f"**{len(faults)} faults** over {', '.join(f'`{name}`' for name in recipes)}: "
        f"{sum(fault['outcome'] == SURVIVED for fault in faults)} survived, "
        f"{sum(fault['outcome'] == REFUSED for fault in faults)} refused clearly; **{', '.join(ends[:4])}**, "
        f"{', '.join(ends[4:])}."
    )


def _plural(kind: str) -> str:
    return {"hang": "hangs", "left over": "left-overs", "not as expected": "not as expected"}.get(kind, f"{kind}s")


def _row(name: str, faults: Sequence[Record]) -> str:
    bad = sum(fault["outcome"] in BAD for fault in faults)
    counts = [sum(fault["outcome"] == kind for fault in faults) for kind in (SURVIVED, REFUSED)]
    lost = [fault["lost"] for fault in faults if fault["lost"] is not None]
    cells = [name, str(len(faults)), *map(str, counts), str(bad), str(max(lost)) if lost else ""]
    return f"| {' | '.join([*cells, _times(faults, 'detect'), _times(faults, 'recover')])} |"


def _times(faults: Sequence[Record], key: str) -> str:
    """Median and most of the seconds; empty where none were taken."""
    found = [fault[key] for fault in faults if fault[key] is not None]
    return f"{statistics.median(found):.1f}, at most {max(found):.1f}" if found else ""


def write_between(name: str, text: str, page: Path = PAGE) -> None:
    """Put ``text`` between the marks ``name: begin`` and ``name: end`` of the page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")
