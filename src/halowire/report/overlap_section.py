"""The report's section on overlap: how the exchange of every layer was hidden, and where it could not be, why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from statistics import fmean

from halowire.report.figures import Named
from halowire.report.markup import Html, join, tag
from halowire.report.run import Run
from halowire.report.series import finite
from halowire.report.tables import table
from halowire.report.units import number, percent_text

BOUNDARY_FIRST, PLAIN, NOT_HIDDEN = "boundary first", "plain overlap", "not hidden"
MEANING = {
    BOUNDARY_FIRST: "the rows that other workers need are computed and sent before the others, which hide the wire",
    PLAIN: "a layer sends its rows when all of them are there, and only its own local product hides the wire",
    NOT_HIDDEN: "nothing is computed while its rows fly",
}


def overlap_section(runs: list[Named]) -> Html | None:
    """A line for every way of hiding; a row for every run where there are several. None when nothing is known."""
    known = [(one, ways) for one in runs if (ways := ways_of(one.run))]
    if not known:
        return None
    if len(runs) > 1:
        rows = [[one.label, "; ".join([*spelt(ways), *late(one.run)])] for one, ways in known]
        return table(["run", "how the wire was hidden"], rows, "Overlap", class_="words")
    run, ways = known[0][0].run, known[0][1]
    shown = [meaning(way, words) for way, words in zip(ways, spelt(ways), strict=True)]
    shown += [f"{words[0].upper()}{words[1:]}." for words in late(run)]
    return join(*(tag("p", words) for words in [*shown, interior(run, ways)] if words))


def ways_of(run: Run) -> dict[str, list[str]]:
    """The layers by how their exchange was hidden, in the words of the start event; the reason belongs to the words.

    Of a foreign model it is known in the end, and stands in the summary.
    """
    found = run.summary.get("overlap") or run.first.start.get("overlap")
    ways: dict[str, list[str]] = {}
    for layer, way in found.items() if isinstance(found, Mapping) else ():
        ways.setdefault(str(way), []).append(str(layer))
    return ways


def spelt(ways: Mapping[str, list[str]]) -> list[str]:
    """layers 1 and 2 boundary first."""
    return [f"{layers_words(layers)} {re.sub(': ', ', ', way, count=1)}" for way, layers in ways.items()]


def layers_words(layers: list[str]) -> str:
    """layer 1; layers 1 and 2; layers 1, 2 and 4; layers 1 to 31."""
    if len(layers) == 1:
        return "all layers" if layers[0] == "all" else f"layer {layers[0]}"
    numbers = [int(layer) for layer in layers if layer.isdecimal()]
    if len(numbers) == len(layers) > 3 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"layers {layers[0]} to {layers[-1]}"
    return f"layers {', '.join(layers[:-1])} and {layers[-1]}"


def meaning(way: str, words: str) -> str:
    """The words as a sentence that says what they mean."""
    told = MEANING.get(way.partition(":")[0])
    return f"{words[0].upper()}{words[1:]}{f': {told}' if told else ''}."


def late(run: Run) -> list[str]:
    """Delayed rows are hidden by a whole epoch."""
    freshness = run.config.get("freshness")
    mode = freshness.get("mode") if isinstance(freshness, Mapping) else None
    return ["rows are used one epoch late, so that a message has the whole epoch to fly"] if mode == "delayed" else []


def interior(run: Run, ways: Mapping[str, list[str]]) -> str | None:
    """How much there is to compute while boundary rows fly; None where nothing ran boundary first."""
    shares = finite(number(rank.start.get("interior_share")) for rank in run.ranks)
    if not shares or BOUNDARY_FIRST not in ways:
        return None
    least = f", {percent_text(min(shares))} on the worker with the least" if len(set(shares)) > 1 else ""
    return (
        f"{percent_text(fmean(shares))} of a worker's rows have nothing to do with other workers and are computed "
        f"while messages fly{least}."
    )
