"""What a page says layer by layer: how each layer's exchange was hidden, and which kernels served it."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from halowire.report.facts import ShownRun, served_layers
from halowire.report.markup import Html, join, table, tag
from halowire.report.run_files import RunFiles
from halowire.report.units import capitalised, finite, number, percent_text

BOUNDARY_FIRST = "boundary first"
MEANING = {
    BOUNDARY_FIRST: "rows that other workers need are computed and sent first; computing the other rows hides the wire",
    "plain overlap": "a layer sends its rows when all of them are computed; only its local product hides the wire",
    "not hidden": "nothing is computed while its rows are on the wire",
}


def how_hidden(runs: list[ShownRun]) -> Html | None:
    """A line for every way of hiding; a row for every run where there are several. None when nothing is known."""
    known = [(one, ways) for one in runs if (ways := _ways(one.files))]
    if not known:
        return None
    if len(runs) > 1:
        rows = [[one.label, "; ".join([*_spelt(ways), *_delay(one.files)])] for one, ways in known]
        return table(["run", "how the wire was hidden"], rows, "Overlap", class_="words")
    run, ways = known[0][0].files, known[0][1]
    meanings = (MEANING.get(way.partition(":")[0]) for way in ways)
    shown = [
        f"{words}. {capitalised(told)}" if told else words for words, told in zip(_spelt(ways), meanings, strict=True)
    ]
    sentences = [f"{capitalised(words)}." for words in [*shown, *_delay(run)]]
    return join(*(tag("p", words) for words in [*sentences, _interior(run, ways)] if words))


def serving_kernels(one: ShownRun) -> Html | None:
    """A row for every PyG layer of a model of one's own: what serves it, and why; None where the run has none."""
    summary = one.files.summary
    layers = served_layers(summary)
    if not layers:
        return None
    native = sum(layer.get("path") == "native" for layer in layers.values())
    words = f"In training, halowire's kernels serve {native} of {len(layers)} layers; PyG's own code serves the others."
    if summary.get("kernels") not in (None, "native"):
        words += " This machine has no native kernels: torch stands in for them."
    if summary.get("rows_as_they_are") is True:
        words += " Rows travel after dropout, so they are coded as they are, not as changes since the last epoch: "
        words += "--rate.decay is not used."
    rows = [
        [name, *(str(layer.get(key) or "") for key in ("kind", "path", "reason"))] for name, layer in layers.items()
    ]
    return join(
        tag("p", words, class_="quiet"),
        table(["layer", "kind", "path", "why"], rows, "Layers and what serves them in training", class_="words"),
    )


def _ways(run: RunFiles) -> dict[str, list[str]]:
    """The layers by how their exchange was hidden, in the words of the start event; the reason belongs to the words.

    Of a foreign model it is known in the end, and stands in the summary.
    """
    found = run.summary.get("overlap") or run.first.start.get("overlap")
    ways: dict[str, list[str]] = {}
    for layer, way in found.items() if isinstance(found, Mapping) else ():
        ways.setdefault(str(way), []).append(str(layer))
    return ways


def _spelt(ways: Mapping[str, list[str]]) -> list[str]:
    """layers 1 and 2: boundary first; layer 3: plain overlap (batch norm)."""
    parted = [(layers, *way.partition(": ")) for way, layers in ways.items()]
    return [f"{_layers(layers)}: {way}" + (f" ({why})" if why else "") for layers, way, _, why in parted]


def _layers(layers: list[str]) -> str:
    """layer 1; layers 1 and 2; layers 1, 2 and 4; layers 1 to 31."""
    if len(layers) == 1:
        return "all layers" if layers[0] == "all" else f"layer {layers[0]}"
    numbers = [int(layer) for layer in layers if layer.isdecimal()]
    if len(numbers) == len(layers) > 3 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"layers {layers[0]} to {layers[-1]}"
    return f"layers {', '.join(layers[:-1])} and {layers[-1]}"


def _delay(run: RunFiles) -> list[str]:
    """Words for rows that are delayed, and so hidden by a whole epoch."""
    freshness = run.config.get("freshness")
    mode = freshness.get("mode") if isinstance(freshness, Mapping) else None
    return (
        ["rows are used one epoch late, so that a message has the whole epoch to arrive"] if mode == "delayed" else []
    )


def _interior(run: RunFiles, ways: Mapping[str, list[str]]) -> str | None:
    """How much there is to compute while boundary rows are on the wire; None where nothing ran boundary first."""
    shares = finite(number(rank.start.get("interior_share")) for rank in run.ranks)
    if not shares or BOUNDARY_FIRST not in ways:
        return None
    least = f", {percent_text(min(shares))} on the worker with the least" if len(set(shares)) > 1 else ""
    return (
        f"{percent_text(fmean(shares))} of a worker's rows have nothing to do with other workers and are computed "
        f"while messages are on the wire{least}."
    )
