"""The tables of the benchmark, from the runs that are finished."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import Any


def table(results: dict[str, Any]) -> str:
    """Markdown: for every graph and cut, mean test accuracy with its standard error and training bytes, by recipe."""
    groups: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for key, run in results.items():
        graph, cut, name, _ = key.split("/")
        groups[graph, cut][name].append(run)
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    lines = [f"| graph, cut | {' | '.join(names)} |", "| --- " * (len(names) + 1) + "|"]
    for (graph, cut), group in groups.items():
        cells = [_cell(group[name], group.get("exact")) if name in group else "" for name in names]
        lines.append(f"| {graph}, {cut} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(runs: list[dict[str, Any]], exact: list[dict[str, Any]] | None) -> str:
    tests = [100 * run["test"] for run in runs]
    error = statistics.stdev(tests) / math.sqrt(len(tests)) if len(tests) > 1 else math.nan
    text = f"{statistics.mean(tests):.2f} ± {error:.2f}"
    sent = statistics.mean(run["wire_bytes_per_epoch"] * run["epochs"] for run in runs)
    if exact and sent:
        full = statistics.mean(run["wire_bytes_per_epoch"] * run["epochs"] for run in exact)
        text += f" (1/{full / sent:.1f})"
    return text
