"""The tables of the benchmark, from the runs that are finished."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import Any

from bench.depth.tasks import EXACT, GRAPHS, WAYS

GOAL = 0.99
WINDOW = 5
RISE = 1.5
"""Times its least loss: a run that ends there has diverged."""
BLIND = 0.98
"""Of the loss of knowing the classes' shares only: a run that ends above has learnt nothing, or lost it again."""
Runs = dict[str, list[dict[str, Any]]]
WORDS = {"gcnii": "GCNII", "resgcn": "ResGCN+"}


def table(results: dict[str, Any]) -> str:
    """Markdown: for each model accuracy and convergence of every way; the runs whose loss grew or was no number."""
    results = _longest(results)
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


def _longest(results: dict[str, Any]) -> dict[str, Any]:
    """Of each graph and model the runs of the most epochs: shorter ones wait to be run again, and do not compare."""
    most: dict[str, int] = defaultdict(int)
    for key, run in results.items():
        most[_pair(key)] = max(most[_pair(key)], run["epochs"])
    return {key: run for key, run in results.items() if run["epochs"] == most[_pair(key)]}


def _pair(key: str) -> str:
    """Graph and model of a run."""
    return "/".join(key.split("/")[:2])


def _table(title: str, graphs: dict[str, Runs], cell: Any) -> str:
    names = [way.name for way in WAYS if any(way.name in runs for runs in graphs.values())]
    lines = [_row("graph", "seeds", "epochs", *names), "| --- " * (3 + len(names)) + "|"]
    for graph, runs in graphs.items():
        seeds = max(len(found) for found in runs.values())
        epochs = "/".join(str(count) for count in sorted({run["epochs"] for found in runs.values() for run in found}))
        lines.append(
            _row(graph, str(seeds), epochs, *(cell(runs[name], runs) if name in runs else "" for name in names))
        )
    return f"{title}:\n\n" + "\n".join(lines)


def _accuracy(found: list[dict[str, Any]], runs: Runs) -> str:
    tests = [100 * run["test"] for run in found]
    words = f"{statistics.mean(tests):.2f}"
    if len(tests) > 1:
        words += f" ± {statistics.stdev(tests) / math.sqrt(len(tests)):.2f}"
    lost = sum(bool(diverges(run)) for run in found)
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


def diverges(run: dict[str, Any]) -> str:
    """How a run went wrong, in words; empty if it did not.

    Losses are means of 5 epochs. One that rises must rise by a tenth of the first loss too: next to zero, 1.5 times the
    smallest is noise.
    """
    losses = run["losses"]
    if run["diverged"] or not losses:
        return "the loss became no number"
    window = min(len(losses), WINDOW)
    means = [statistics.mean(losses[end - window : end]) for end in range(window, len(losses) + 1)]
    if means[-1] > losses[0]:
        return "ends above where it began"
    if means[-1] > RISE * min(means) and means[-1] - min(means) > losses[0] / 10:
        return f"ends at {means[-1] / min(means):.1f} times its least loss"
    if means[-1] > BLIND * run["blind_loss"]:
        return "ends with the loss of a model that knows the shares of the classes only"
    return ""


def _trouble(results: dict[str, Any]) -> str:
    found = []
    for key, run in results.items():
        if words := diverges(run):
            losses = run["losses"] or [math.nan]
            numbers = f"loss {losses[0]:.3g} at first, {min(losses):.3g} at best, {losses[-1]:.3g} at the end"
            found.append(f"- {key}, {run['epochs']} epochs: {words} ({numbers})")
    return "Runs that diverged:\n\n" + "\n".join(found) if found else "No run diverged."


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
