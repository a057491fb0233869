"""The tables of the benchmark, from the runs that are finished."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from bench.accuracy.tasks import CODES, COMPARED_SEEDS, GRAPHS, RECIPES, SLOPES

LIMITS = {"metis": 0.3, "random": 0.7}
"""Points that `halowire` may lose against `exact`, or one standard error of the difference where that is more."""
FEWEST = 20
"""`halowire` sends at most this part of the bytes of `exact`."""


@dataclass(frozen=True)
class Cell:
    """Test accuracies in points by seed, of one graph, cut and recipe, and the mean bytes of a whole training."""

    by_seed: dict[int, float]
    sent: float

    @property
    def tests(self) -> list[float]:
        """Those of all seeds."""
        return list(self.by_seed.values())

    @property
    def mean(self) -> float:
        """Mean accuracy."""
        return statistics.mean(self.tests)

    @property
    def error(self) -> float:
        """Standard error of the mean; not a number with one seed."""
        return statistics.stdev(self.tests) / math.sqrt(len(self.tests)) if len(self.tests) > 1 else math.nan


Groups = dict[tuple[str, str], dict[str, Cell]]


def grouped(results: dict[str, Any]) -> Groups:
    """The finished runs by (graph, cut) and name, in the order of the tasks."""
    runs: dict[tuple[str, str], dict[str, dict[int, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    for key, run in results.items():
        graph, cut, name, seed = key.split("/")
        runs[graph, cut][name][int(seed)] = run
    graphs = [data.name for data in GRAPHS]
    places = sorted(runs, key=lambda place: (graphs.index(place[0]), place[1]))
    return {place: {name: _cell(found) for name, found in runs[place].items()} for place in places}


def _cell(runs: dict[int, dict[str, Any]]) -> Cell:
    sent = statistics.mean(run["wire_bytes_per_epoch"] * run["epochs"] for run in runs.values())
    return Cell({seed: 100 * run["test"] for seed, run in runs.items()}, sent)


def _paired(one: Cell, other: Cell) -> Cell:
    """The differences of the seeds that both have: same cut, same weights at the start, same dropout."""
    return Cell(
        {seed: value - other.by_seed[seed] for seed, value in one.by_seed.items() if seed in other.by_seed}, 0.0
    )


def table(results: dict[str, Any]) -> str:
    """Markdown: accuracy of every recipe, bytes, the targets, VARCO against fixed ratios, one-bit codes."""
    groups = grouped(results)
    parts = [_accuracy(groups), _bytes(groups), _targets(groups), _varco(groups), _codes(groups)]
    return "\n\n".join(part for part in parts if part)


def _accuracy(groups: Groups) -> str:
    lines = _head("graph, cut", "seeds", *RECIPES)
    for place, group in groups.items():
        seeds = max(len(cell.tests) for cell in group.values())
        lines.append(_row(", ".join(place), str(seeds), *(_points(group.get(name)) for name in RECIPES)))
    return "Test accuracy, mean ± standard error:\n\n" + "\n".join(lines)


def _points(cell: Cell | None) -> str:
    return "" if cell is None else f"{cell.mean:.2f} ± {cell.error:.2f}"


def _bytes(groups: Groups) -> str:
    lines = _head("graph, cut", *RECIPES)
    for place, group in groups.items():
        if "exact" in group:
            cells = (_amount(group.get(name), group["exact"]) for name in RECIPES)
            lines.append(_row(", ".join(place), *cells))
    return "Halo bytes of the whole training, all workers:\n\n" + "\n".join(lines)


def _amount(cell: Cell | None, exact: Cell) -> str:
    if cell is None:
        return ""
    if cell is exact:
        return f"{cell.sent / 1e6:.0f} MB"
    return f"1/{exact.sent / cell.sent:.1f}" if cell.sent else "none"


def _targets(groups: Groups) -> str:
    lines = _head("graph, cut", "halowire - exact", "allowed", "bytes", "halowire - sylvie-s", "")
    gains = []
    for (graph, cut), group in groups.items():
        if not {"exact", "halowire", "sylvie-s"} <= group.keys():
            continue
        exact, ours, one_bit = group["exact"], group["halowire"], group["sylvie-s"]
        lost, gain = _paired(exact, ours), _paired(ours, one_bit).mean
        allowed, ratio = max(LIMITS[cut], 0.0 if math.isnan(lost.error) else lost.error), exact.sent / ours.sent
        gains.append(gain)
        met = "met" if lost.mean <= allowed and ratio >= FEWEST else "missed"
        difference = f"{-lost.mean:+.2f} ± {lost.error:.2f}"
        lines.append(_row(f"{graph}, {cut}", difference, f"{-allowed:.2f}", f"1/{ratio:.1f}", f"{gain:+.2f}", met))
    if not gains:
        return ""
    mean = f"\n\n`halowire` is ahead of `sylvie-s` by {statistics.mean(gains):+.2f} points on average."
    return "The one-bit code against its targets:\n\n" + "\n".join(lines) + mean


def _varco(groups: Groups) -> str:
    lines = _head("graph, cut", *(f"slope {slope}: VARCO, fixed" for slope in SLOPES))
    for place, group in groups.items():
        names = [(ours, f"fixed, bytes of slope {slope}") for slope, ours in SLOPES.items()]
        if all(name in group for pair in names for name in pair):
            cells = (f"{_compared(group[ours])}, {_compared(group[fixed])}" for ours, fixed in names)
            lines.append(_row(", ".join(place), *cells))
    title = f"VARCO against the fixed ratio of equal total bytes, {COMPARED_SEEDS} seeds:"
    return f"{title}\n\n" + "\n".join(lines) if len(lines) > 2 else ""


def _codes(groups: Groups) -> str:
    names = ("exact", *CODES)
    lines = _head("graph, cut", *names)
    for place, group in groups.items():
        if all(name in group for name in names):
            lines.append(_row(", ".join(place), *(_compared(group[name]) for name in names)))
            lines.append(_row("halo bytes", *(_amount(group[name], group["exact"]) for name in names)))
    return f"One-bit codes, {COMPARED_SEEDS} seeds:\n\n" + "\n".join(lines) if len(lines) > 2 else ""


def _compared(cell: Cell) -> str:
    """Of the seeds that a comparison has."""
    return _points(Cell({seed: value for seed, value in cell.by_seed.items() if seed < COMPARED_SEEDS}, cell.sent))


def _head(*names: str) -> list[str]:
    return [_row(*names), "| --- " * len(names) + "|"]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
