"""The tables of the benchmark, from the runs that are finished."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import Any

from bench.depth.tasks import EXACT, GRAPHS, WAYS

GOAL = 0.99
Runs = dict[str, list[dict[str, Any]]]
WORDS = {"gcnii": "GCNII", "resgcn": "ResGCN+"}


def table(results: dict[str, Any]) -> str:
    """Markdown: for each model accuracy and convergence of every way; the runs whose loss grew or was no number."""
    groups: dict[str, dict[str, Runs]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for key, run in results.items():
        graph, model, way, _ = key.split("/")
        groups[model][graph][way].append(run)
    parts = []
    for model, graphs in groups.items():
        ordered = {data.name: graphs[data.name] for data in GRAPHS if data.name in graphs}
        name = WORDS[model]
        parts.append(_table(f"{name}: test % at the best validation, mean ± standard error", ordered, _accuracy))
        parts.append(_table(f"{name}: epochs to 99% of graph parallelism's best validation", ordered, _epochs))
    return "\n\n".join([*parts, _trouble(results)])


def _table(title: str, graphs: dict[str, Runs], cell: Any) -> str:
    names = [way.name for way in WAYS if any(way.name in runs for runs in graphs.values())]
    lines = [_row("graph", "seeds", *names), "| --- " * (2 + len(names)) + "|"]
    for graph, runs in graphs.items():
        seeds = max(len(found) for found in runs.values())
        lines.append(_row(graph, str(seeds), *(cell(runs[name], runs) if name in runs else "" for name in names)))
    return f"{title}:\n\n" + "\n".join(lines)


def _accuracy(found: list[dict[str, Any]], runs: Runs) -> str:
    tests = [100 * run["test"] for run in found]
    words = f"{statistics.mean(tests):.2f}"
    if len(tests) > 1:
        words += f" ± {statistics.stdev(tests) / math.sqrt(len(tests)):.2f}"
    lost = sum(diverges(run) for run in found)
    return f"{words} ({lost} diverged)" if lost else words


def _epochs(found: list[dict[str, Any]], runs: Runs) -> str:
    if EXACT.name not in runs:
        return ""
    goal = GOAL * statistics.mean(max((val for _, val in run["curve"]), default=0.0) for run in runs[EXACT.name])
    done = [next((epoch for epoch, val in run["curve"] if val >= goal), None) for run in found]
    reached = [epoch for epoch in done if epoch is not None]
    if not reached:
        return "never"
    words = f"{statistics.mean(reached):.0f}"
    return words if len(reached) == len(done) else f"{words} ({len(reached)} of {len(done)} seeds)"


def diverges(run: dict[str, Any]) -> bool:
    """Whether the loss became no number, or ended above where it began."""
    losses = run["losses"]
    return bool(run["diverged"] or not losses or statistics.mean(losses[-5:]) > losses[0])


def _trouble(results: dict[str, Any]) -> str:
    found = []
    for key, run in results.items():
        if diverges(run):
            losses = run["losses"] or [math.nan]
            how = "no number" if run["diverged"] else f"{losses[-1]:.3g}"
            found.append(f"- {key}: loss {losses[0]:.3g} at first, {min(losses):.3g} at best, {how} at the end")
    return "Runs that diverged:\n\n" + "\n".join(found) if found else "No run diverged."


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
