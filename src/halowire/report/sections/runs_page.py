"""The page of one or more runs has a headline, key numbers or a table, and further sections in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from halowire.errors import InputError
from halowire.events import VALUE_METRICS, best_of
from halowire.files import write_text
from halowire.report.facts import ShownRun, notes, shown_runs
from halowire.report.machine_words import kernel_words, memory_owner
from halowire.report.markup import Column, Compared, Html, best_table, brand, join, notes_list, page, tag
from halowire.report.run_files import read_run, write_trace
from halowire.report.sections.layout import how_hidden, pipeline_figure, serving_kernels, who_owns_what
from halowire.report.sections.run_figures import run_figures
from halowire.report.sections.run_settings import differing_settings, repeat, settings_by_group
from halowire.report.sections.travelling import what_travels
from halowire.report.units import (
    Json,
    as_object,
    bytes_text,
    count_text,
    finite,
    metric_text,
    metric_words,
    number,
    number_text,
    percent_text,
    plural,
    seconds_text,
)

LATEST = 1e11
"""Seconds since 1970: the year 5138; what a file says beyond it is no time."""
ENDED = {"early-stopped": "stopped early (--early-stop)"}
"""The meaning of a status in `summary.json`, if the word alone does not say it."""


def write_report(run_folders: list[Path], out: Path) -> Path:
    """Write one report of one or more runs to ``out``, which is a file, or a folder for report.html.

    For a single run, the timelines of its pipeline are also written as a Chrome trace, next to the page.
    """
    if not run_folders:
        raise InputError("no run folder was given: name at least one folder that `halowire train --out` wrote")
    runs = shown_runs([read_run(Path(folder)) for folder in run_folders])
    graph, recipe = runs[0].facts["graph"], runs[0].facts["recipe"]
    title = f"{len(runs)} runs on {graph}" if len(runs) > 1 else f"{graph}, {recipe}"
    content = [*_top_of_runs(runs), *_sections_of_runs(runs)]
    target = Path(out) / "report.html" if Path(out).is_dir() else Path(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, page(title, content, ", ".join(str(run.files.folder) for run in runs)))
    if len(runs) == 1:
        write_trace(runs[0].files, target)
    return target


def _top_of_runs(runs: list[ShownRun]) -> list[object]:
    """The headline, what was run, what to beware of, and the key numbers."""
    one, several = runs[0], len(runs) > 1
    return [
        brand("comparison" if several else when_and_how_it_ended(one)),
        tag("h1", headline(runs)),
        None if several else tag("p", subtitle(one), class_="sub"),
        notes_list([f"{run.label}: {note}" if several else note for run in runs for note in notes(run)]),
        tag("div", runs_table(runs), class_="compare-box") if several else key_numbers(one),
    ]


def _sections_of_runs(runs: list[ShownRun]) -> list[object]:
    """The sections that have content, each below its title, and how to run the runs again."""
    one, several = runs[0], len(runs) > 1
    figures = run_figures(runs)
    found: list[tuple[str, Html | None]] = [
        ("How it went", tag("div", *figures, class_="figures") if figures else None),
        ("The pipeline", None if several else pipeline_figure(one)),
        ("Overlap", how_hidden(runs)),
        ("Who owns what", None if several else who_owns_what(one)),
        ("What travels", None if several else what_travels(one)),
        ("Layers", None if several else serving_kernels(one)),
        ("Settings", differing_settings(runs) if several else settings_by_group(one)),
    ]
    nothing = tag("p", "No epoch was recorded, so there is nothing to draw.", class_="quiet")
    return [
        None if figures else nothing,
        *(part for title, content in found if content is not None for part in (tag("h2", title), content)),
        # The commands of several runs are folded away, and paper cannot unfold them.
        tag("h2", "Run it again", class_="screen" if several else None),
        *(repeat(run, several) for run in runs),
    ]


def headline(runs: list[ShownRun]) -> Html:
    """What the runs reached, in one sentence."""
    known = [one.facts for one in runs]
    results = ranges(known, results_of(runs[0].metric))
    if len(runs) > 1:
        return sentence(f"{len(runs)} runs on {', '.join(sorted({str(one['graph']) for one in known}))}", results)
    one = known[0]
    if number(one["wire_bytes_per_epoch"]) == 0:
        results[-1] = join("nothing on the wire")
    title = ", ".join(str(part) for part in (one["graph"], plural(one["workers"], "worker"), one["recipe"]) if part)
    return sentence(title, results)


Result = tuple[str, Callable[[float], str], str]
"""A key of the numbers, how its value is written, and the words after it."""


def results_of(metric: str) -> list[Result]:
    """The results in the headline of runs."""
    return [
        ("test", partial(metric_text, metric), f"test {metric_words(metric)}"),
        ("epoch_seconds", seconds_text, "per epoch"),
        ("wire_bytes_per_epoch", bytes_text, "on the wire per epoch"),
    ]


def ranges(known: list[Json], results: list[Result]) -> list[Html]:
    """Every result that at least one run has, as **low to high** and the words after it."""
    parts = []
    for key, words, after in results:
        if values := finite(number(one[key]) for one in known):
            low, high = words(min(values)), words(max(values))
            parts.append(join(tag("b", low if low == high else f"{low} to {high}"), f" {after}"))
    return parts


def sentence(begin: str, results: list[Html]) -> Html:
    """The beginning, then the results with commas between them."""
    return join(begin, ": " if results else "", Html(", ".join(results)))


def subtitle(one: ShownRun) -> str:
    """The graph's size, the model, the seed and the kernels."""
    known, start = one.facts, one.files.first.start
    # A worker's start event counts the edges of its own shard; only the partition knows all of them.
    edges = as_object(known.get("partition")).get(
        "num_edges", start.get("edges") if number(known["workers"]) == 1 else None
    )
    sizes = ((start.get("nodes"), "node"), (edges, "edge"), (start.get("features"), "feature"))
    parts = [plural(count, word) for count, word in sizes if math.isfinite(number(count))]
    if number(start.get("classes")) > 0:
        values = start.get("metric") in VALUE_METRICS
        parts.append(plural(start["classes"], "value") if values else f"{count_text(start['classes'])} classes")
    spelt = {"model": "model {}", "seed": "seed {}"}
    parts += [words.format(known[key]) for key, words in spelt.items() if known.get(key) not in (None, "")]
    return ", ".join([*parts, kernel_words(known)] if kernel_words(known) else parts)


def when_and_how_it_ended(one: ShownRun) -> str:
    """When the run began, how long it took and how it ended."""
    first = one.files.first
    begun, ended = number(first.start.get("time")), number(first.end.get("time"))
    status = str(one.facts["status"])
    parts = []
    if 0 <= begun < LATEST:
        parts.append(datetime.fromtimestamp(begun, tz=UTC).strftime("%Y-%m-%d %H:%M UTC"))
    if 0 <= begun < ended < LATEST:
        parts.append(f"took {seconds_text(ended - begun)}")
    return ", ".join([*parts, ENDED.get(status, status)])


def key_numbers(one: ShownRun) -> Html:
    """The key numbers of a run, each with a line that puts it in proportion."""
    known, spell = one.facts, partial(metric_text, one.metric)
    at = f" at epoch {known['best_epoch']}" if known.get("best_epoch") is not None else ""
    total = number(known.get("wire_bytes_total"))
    weights = number(known.get("gradient_bytes_per_epoch"))
    sent = [f"{bytes_text(total)} in all epochs"] if total > 0 else []
    sent += [f"weight gradients: {bytes_text(weights)} per epoch"] if weights > 0 else []
    return tag(
        "dl",
        _tile(f"test {metric_words(one.metric)}", spell(known["test"]), f"validation {spell(known['val'])}{at}"),
        _tile("training loss", number_text(known["train_loss"]), f"after {plural(known['epochs'], 'epoch')}"),
        _tile("time per epoch", seconds_text(known["epoch_seconds"]), "median, without evaluation"),
        _tile(
            "waiting for the wire", percent_text(known["waiting"]), f"{seconds_text(known['wait_seconds'])} of an epoch"
        ),
        _tile("wire per epoch", bytes_text(known["wire_bytes_per_epoch"]), "; ".join(sent) or "sent by all workers"),
        _tile("peak memory", bytes_text(known["peak_memory_bytes"]), f"of the {memory_owner(known)}"),
        class_="tiles",
    )


def _tile(name: str, value: str, more: str) -> Html:
    """A number with its unit set smaller, its name above and a line below."""
    amount, _, unit = value.partition(" ")
    big = join(amount, tag("small", unit)) if unit and " " not in unit else value
    return tag("div", tag("dt", name), tag("dd", big, class_="big"), tag("dd", more, class_="more"), class_="tile")


def runs_table(runs: list[ShownRun]) -> Html:
    """The key numbers of several runs side by side."""
    metric = runs[0].metric
    words, best = partial(metric_text, metric), best_of(metric)
    columns = [
        Column(f"test {metric_words(metric)}", ("test",), words, best),
        Column("validation", ("val",), words, best),
        Column("loss", ("train_loss",), number_text, min),
        Column("time per epoch", ("epoch_seconds",), seconds_text, min),
        Column("waiting", ("waiting",), percent_text, min),
        Column("wire per epoch", ("wire_bytes_per_epoch",), bytes_text, min),
        Column("weight gradients per epoch", ("gradient_bytes_per_epoch",), bytes_text),
        Column("peak memory", ("peak_memory_bytes",), bytes_text, min),
        Column("epochs", ("epochs",), count_text),
    ]
    rows = [Compared(one.label, one.slot, one.facts) for one in runs]
    return best_table("run", rows, columns, "Comparison of the runs")
