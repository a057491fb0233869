"""The tables of the benchmark, from the runs that are finished."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from bench.accuracy.tasks import CODES, COMPARED_SEEDS, GRAPHS, RECIPES, SLOPES

LIMITS = {"halowire": {"metis": 0.2, "random": 0.3}, "halowire-late": {"metis": 0.2, "random": 0.4}}
"""Points that a recipe may lose against `exact`, or one standard error of the difference where that is more."""
FEWEST = {"halowire": 30, "halowire-late": 50}
"""In the median of graphs and cuts a recipe sends at most this part of the bytes of `exact`."""


@dataclass(frozen=True)
class Cell:
    """Test accuracies in points by seed, of one graph, cut and recipe, and the mean bytes of a whole training.

    ``once`` are the mean bytes before training, but for the weights; None where some of the runs did not keep them.
    """

    by_seed: dict[int, float]
    sent: float
    once: float | None = None

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
    # The first weights are left out, as the weight gradients of every epoch are: all recipes send both alike.
    kept = ("setup_wire_bytes", "weights_wire_bytes")
    setup = [run[kept[0]] - run[kept[1]] if run.keys() >= {*kept} else None for run in runs.values()]
    once = None if None in setup else statistics.mean(bytes_ for bytes_ in setup if bytes_ is not None)
    return Cell({seed: 100 * run["test"] for seed, run in runs.items()}, sent, once)


def _paired(one: Cell, other: Cell) -> Cell:
    """The differences of the seeds that both have: same cut, same weights at the start, same dropout."""
    return Cell(
        {seed: value - other.by_seed[seed] for seed, value in one.by_seed.items() if seed in other.by_seed}, 0.0
    )


def table(results: dict[str, Any], wanted: Collection[str]) -> str:
    """Markdown: accuracy of every recipe, bytes, the targets, VARCO against fixed ratios, one-bit codes.

    ``wanted`` are the keys of all runs; as long as some are missing, the tables say that they are partial.
    """
    groups = grouped(results)
    done = sum(key in results for key in wanted)
    partial = f"**Partial: {done} of {len(wanted)} runs are there; the number of seeds stands in brackets.**"
    parts = [partial if done < len(wanted) else "", _accuracy(groups), _bytes(groups)]
    parts += [_targets(groups, name) for name in LIMITS] + [_varco(groups), _codes(groups)]
    return "\n\n".join(part for part in parts if part)


def _accuracy(groups: Groups) -> str:
    lines = _head("graph, cut", *RECIPES)
    for place, group in groups.items():
        lines.append(_row(", ".join(place), *(_points(group.get(name)) for name in RECIPES)))
    return "Test accuracy, mean ± standard error (seeds):\n\n" + "\n".join(lines)


def _points(cell: Cell | None) -> str:
    if cell is None:
        return ""
    error = "" if math.isnan(cell.error) else f" ± {cell.error:.2f}"
    return f"{cell.mean:.2f}{error} ({len(cell.tests)})"


def _bytes(groups: Groups) -> str:
    lines = _head("graph, cut", *RECIPES)
    for place, group in groups.items():
        if "exact" in group:
            cells = (_amount(group.get(name), group["exact"], set_up=True) for name in RECIPES)
            lines.append(_row(", ".join(place), *cells))
    words = (
        "Bytes of the whole training, all workers: of `exact` without set-up, of the others as a part of these; where "
        "there are two numbers, the first counts set-up too (features, sums, what the workers agree on):"
    )
    return f"{words}\n\n" + "\n".join(lines)


def _amount(cell: Cell | None, exact: Cell, set_up: bool = False) -> str:
    if cell is None:
        return ""
    if cell is exact:
        return f"{cell.sent / 1e6:.0f} MB"
    alone = f"1/{exact.sent / cell.sent:.1f}" if cell.sent else "none"
    if not set_up or cell.once is None:
        return alone
    return f"1/{exact.sent / (cell.sent + cell.once):.1f} ({alone})"


def _targets(groups: Groups, name: str) -> str:
    """What ``name`` loses against `exact`, and the bytes that it sends, set-up and all."""
    lines = _head("graph, cut", f"{name} - exact", "seeds", "allowed", "bytes", "")
    ratios = []
    for (graph, cut), group in groups.items():
        if not {"exact", name} <= group.keys():
            continue
        exact, ours = group["exact"], group[name]
        gain = _paired(ours, exact)
        if not gain.tests:
            continue
        error = 0.0 if math.isnan(gain.error) else gain.error
        allowed, ratio = max(LIMITS[name][cut], error), exact.sent / (ours.sent + (ours.once or 0.0))
        ratios.append(ratio)
        met = "met" if -gain.mean <= allowed else "missed"
        difference = f"{gain.mean:+.2f}" + (f" ± {error:.2f}" if error else "")
        lines.append(
            _row(f"{graph}, {cut}", difference, str(len(gain.tests)), f"{-allowed:.2f}", f"1/{ratio:.1f}", met)
        )
    if not ratios:
        return ""
    middle = statistics.median(ratios)
    words = f"1/{middle:.1f} of the bytes of `exact` in the median; the goal is 1/{FEWEST[name]}"
    return f"`{name}` against its goals, by pairs of runs with the same seed:\n\n" + "\n".join(lines) + f"\n\n{words}."


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
