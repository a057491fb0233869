"""Sections on how the work was laid out: partition, pipeline, how exchanges were hidden, what served each layer."""

from __future__ import annotations

import math
from statistics import fmean

from halowire.report.charts import legend, timeline_chart
from halowire.report.facts import ShownRun, served_layers, workers_said
from halowire.report.machine_words import stand_in_words
from halowire.report.markup import Html, figure, join, table, tag
from halowire.report.run_files import KINDS, RunFiles, WorkerTimeline, mean_bubble, timelines
from halowire.report.units import (
    NOTHING,
    Json,
    as_list,
    as_object,
    bytes_text,
    capitalised,
    count_text,
    digits,
    finite,
    number,
    percent_text,
    seconds_text,
)

MOST_LINES = 16
"""The most lines of a timeline; its data table has all lines."""
FORMULA = "(S\u22121)/(C+S\u22121)"
"""The ideal bubble of S stages and C chunks; no line breaks after its minus signs, as it would after hyphens."""
PER_PART = (
    ("nodes", "owned_rows", "owned nodes"),
    ("edges", "", "edges into them"),
    ("halo_rows", "halo_rows", "halo rows"),
    ("cover_rows", "", "with partial sums"),
    ("", "machine_rows", "rows of other machines"),
    ("", "carried_rows", "received from there"),
    ("train_nodes", "", "training nodes"),
)
"""For every column: its key in the quality figures, its key in the start event as a fallback, its words."""
BALANCE = (
    ("node_imbalance", "nodes, largest part / mean"),
    ("edge_imbalance", "edges, largest part / mean"),
    ("work_imbalance", "work, largest part / mean"),
    ("memory_imbalance", "memory, largest part / mean"),
)
"""For every row: its key in the quality figures, its words."""
BOUNDARY_FIRST = "boundary first"
MEANING = {
    BOUNDARY_FIRST: "rows that other workers need are computed and sent first; computing the other rows hides the wire",
    "plain overlap": "a layer sends its rows when all of them are computed; only its local product hides the wire",
    "at home": "nothing is sent: every worker computes its halo's rows itself, from features and sums that came once",
    "not hidden": "nothing is computed while its rows are on the wire",
}


def who_owns_what(one: ShownRun) -> Html | None:
    """The quality of a run's partition, and what every worker owns; None if neither is known."""
    quality = as_object(one.facts.get("partition"))
    tables = [made for made in (_cut_table(quality), _worker_table(one, quality)) if made is not None]
    if not tables:
        return None
    words = _sentence(quality)
    return join(tag("p", words) if words else None, tag("div", *tables, class_="beside"))


def how_hidden(runs: list[ShownRun]) -> Html | None:
    """How the layers' exchanges were hidden behind computing: sentences, or a row for each of several runs.

    None if it is not known.
    """
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
    """A row for every PyG layer of the user's model: what serves it, and why; None if the run has no such layers."""
    summary = one.files.summary
    layers = served_layers(summary)
    if not layers:
        return None
    native = sum(layer.get("path") == "native" for layer in layers.values())
    words = f"In training, halowire's kernels serve {native} of {len(layers)} layers; PyG's own code serves the others."
    words = f"{words} {stand_in_words(summary)}".rstrip()
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


def pipeline_figure(one: ShownRun) -> Html | None:
    """A timeline of one epoch for every worker, and its share of bubble; None if no timeline was recorded."""
    title = "One epoch in the pipeline"
    rows = timelines(one.files)
    if not rows:
        return None
    says = _pipeline_says(rows)
    total = sum(row.end for row in rows)
    spent = {kind: seconds for kind in KINDS if (seconds := sum(row.seconds(kind) for row in rows)) > 0}
    shares = legend([(kind, KINDS[kind], percent_text(seconds / total)) for kind, seconds in spent.items()])
    drawing = tag("div", shares, timeline_chart(title, says, rows[:MOST_LINES]), class_="timeline")
    head = ["worker", "stage", "part", "layers", *(KINDS[kind] for kind in spent), "bubble", FORMULA]
    cells = [
        [str(row.rank), str(row.stage), str(row.part), row.layers or NOTHING,
         *(seconds_text(row.seconds(kind)) for kind in spent), percent_text(row.bubble), percent_text(row.ideal)]
        for row in rows
    ]  # fmt: skip
    return tag("div", figure(title, says, drawing, head, cells, wide=True), class_="figures")


def _pipeline_says(rows: list[WorkerTimeline]) -> str:
    """The words below the title of the timeline, with the measured bubble and the ideal one."""
    some = "" if len(rows) <= MOST_LINES else f" ({MOST_LINES} of {len(rows)})"
    words = (
        f"Epoch {rows[0].epoch}, which all workers began together: one line for each worker{some}, one box for each "
        "chunk in its stage. The bubble is the share of the epoch, until all workers are done, in which a worker has "
        f"no chunk in work: {percent_text(mean_bubble(rows))} in the mean"
    )
    if max(row.stage for row in rows) == 0:
        words += "; a single stage has none of its own."
    else:
        words += (
            f". S equal stages and C equal chunks without any transfer have {FORMULA} = {percent_text(rows[0].ideal)}."
        )
        words += " Transfer is coding rows and handing them over; their time on the wire shows as waiting."
    inside = any(row.seconds("exchange") for row in rows)
    return f"{words} Strips inside the boxes are waits for halo rows." if inside else words


def _sentence(quality: Json) -> str | None:
    """What the quality figures mean for the wire; None when they are unknown."""
    share, nodes = number(quality.get("cut_share")), number(quality.get("num_nodes"))
    rows = as_list(quality.get("halo_rows"))
    if len(rows) < 2 or math.isnan(share) or not nodes > 0:
        return None
    copies = 100 * sum(map(number, rows)) / nodes
    return (
        f"{percent_text(share)} of the edges cross from one worker to another; for every 100 nodes that a worker owns, "
        f"it receives {digits(copies)} rows of others in every exchange."
    )


def _cut_table(quality: Json) -> Html | None:
    """The figures of the whole partition."""
    rows: list[list[object]] = []
    if "method" in quality:
        rows.append(["method", str(quality["method"])])
    if "cut_edges" in quality:
        rows.append(["cut edges", f"{count_text(quality['cut_edges'])} ({percent_text(quality.get('cut_share'))})"])
    for key, words in BALANCE:
        if math.isfinite(number(quality.get(key))):
            rows.append([words, f"{number(quality[key]):.2f}"])
    rows += [["choice", str(sentence)] for sentence in as_list(quality.get("choices"))]
    predicted = as_object(quality.get("bytes_per_epoch"))
    # When the graph is cut, the widths of a PyG model's rows are not known yet, and its bytes are predicted as 0.
    foretold = any(number(value) > 0 for value in predicted.values())
    # A single part has no halo, but it may have several stages, whose bytes the cut does not know.
    several = len(as_list(quality.get("halo_rows"))) != 1
    if predicted and several and (foretold or not any(map(number, as_list(quality["halo_rows"])))):
        rows += [
            [f"halo bytes per epoch at {bits} bit{'' if str(bits) == '1' else 's'}", bytes_text(value)]
            for bits, value in predicted.items()
        ]
        reduced = {name: as_object(sizes).get("32") for name, sizes in as_object(quality.get("reduced_bytes")).items()}
        rows += [[f"at 32 bits, {name}", bytes_text(value)] for name, value in reduced.items()]
    return table([], rows, "Partition quality") if rows else None


def _worker_table(one: ShownRun, quality: Json) -> Html | None:
    """What every worker owns, its halo and its memory; columns without a known value are left out."""
    ranks = {rank.rank: rank for rank in one.files.present}
    count = workers_said(one.facts) or max(ranks, default=0) + 1
    columns: dict[str, list[str]] = {}
    for key, fallback, words in PER_PART:
        known = as_list(quality.get(key))
        if len(known) != count:
            known = [ranks[rank].start.get(fallback) if rank in ranks else None for rank in range(count)]
        columns[words] = [count_text(value) for value in known]
    ends = [ranks[rank].end if rank in ranks else {} for rank in range(count)]
    columns["peak memory"] = [bytes_text(end.get("peak_memory_bytes")) for end in ends]
    columns = {name: cells for name, cells in columns.items() if set(cells) != {NOTHING}}
    rows = [[f"worker {rank}", *(cells[rank] for cells in columns.values())] for rank in range(count)]
    return table(["", *columns], rows, "Workers") if columns else None


def _ways(run: RunFiles) -> dict[str, list[str]]:
    """The layers by how their exchange was hidden, as the events say it: ``{"plain overlap: batch norm": ["3"]}``.

    For a PyG model this is known only when training is over, and is kept in the summary.
    """
    found = as_object(run.summary.get("overlap") or run.first.start.get("overlap"))
    ways: dict[str, list[str]] = {}
    for layer, way in found.items():
        ways.setdefault(str(way), []).append(str(layer))
    return ways


def _spelt(ways: dict[str, list[str]]) -> list[str]:
    """The ways in words, such as "layers 1 and 2: boundary first" and "layer 3: plain overlap (batch norm)"."""
    parted = [(layers, *way.partition(": ")) for way, layers in ways.items()]
    return [f"{_layers_text(layers)}: {way}" + (f" ({why})" if why else "") for layers, way, _, why in parted]


def _layers_text(layers: list[str]) -> str:
    """The layers in words: layer 1; layers 1 and 2; layers 1, 2 and 4; layers 1 to 31."""
    if len(layers) == 1:
        return "all layers" if layers[0] == "all" else f"layer {layers[0]}"
    numbers = [int(layer) for layer in layers if layer.isdecimal() and len(layer) < 10]
    if len(numbers) == len(layers) > 3 and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return f"layers {layers[0]} to {layers[-1]}"
    return f"layers {', '.join(layers[:-1])} and {layers[-1]}"


def _delay(run: RunFiles) -> list[str]:
    """Words for delayed rows, which have a whole epoch to arrive; empty if rows are not delayed."""
    delayed = as_object(run.config.get("freshness")).get("mode") == "delayed"
    return ["rows are used one epoch late, so that a message has the whole epoch to arrive"] if delayed else []


def _interior(run: RunFiles, ways: dict[str, list[str]]) -> str | None:
    """How much there is to compute while boundary rows are on the wire; None if no layer ran boundary first."""
    shares = finite(number(rank.start.get("interior_share")) for rank in run.present)
    if not shares or BOUNDARY_FIRST not in ways:
        return None
    least = f", {percent_text(min(shares))} on the worker with the least" if len(set(shares)) > 1 else ""
    return (
        f"{percent_text(fmean(shares))} of a worker's rows have nothing to do with other workers and are computed "
        f"while messages are on the wire{least}."
    )
