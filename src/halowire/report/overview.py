"""The top of the report: the headline sentence, the tiles of one run, the comparison table of several."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from halowire.report.facts import facts
from halowire.report.figures import Named
from halowire.report.markup import Html, join, tag
from halowire.report.run import Json, Run
from halowire.report.series import finite
from halowire.report.tables import table
from halowire.report.units import (
    bytes_text,
    count_text,
    metric_text,
    metric_words,
    number,
    number_text,
    percent_text,
    seconds_text,
    share,
)
from halowire.train.metric_names import VALUE_METRICS, best_of


def plural(count: object, word: str) -> str:
    """1 worker, 2 workers."""
    return f"{count_text(count)} {word}{'' if number(count) == 1 else 's'}"


def headline(runs: list[Named]) -> Html:
    """What the runs reached, in one sentence."""
    if len(runs) > 1:
        return joint_headline([facts(one.run) for one in runs])
    known = facts(runs[0].run)
    title = ", ".join(
        str(part) for part in (known["graph"], plural(known["workers"], "worker"), known["recipe"]) if part
    )
    results = []
    if math.isfinite(number(known["test"])):
        name = str(known["metric"])
        results.append(join(tag("b", metric_text(name, known["test"])), f" test {metric_words(name)}"))
    if math.isfinite(number(known["epoch_seconds"])):
        results.append(join(tag("b", seconds_text(known["epoch_seconds"])), " per epoch"))
    if math.isfinite(number(known["wire_bytes_per_epoch"])):
        sent = number(known["wire_bytes_per_epoch"])
        results.append(
            join(tag("b", bytes_text(sent)), " on the wire per epoch") if sent else join("nothing on the wire")
        )
    return join(title, ": " if results else "", *commas(results))


def commas(parts: list[Html]) -> list[object]:
    """The parts with commas between them."""
    return [piece for index, part in enumerate(parts) for piece in ((", ", part) if index else (part,))]


def joint_headline(known: list[Json]) -> Html:
    """The ranges over several runs."""
    graphs = sorted({str(one["graph"]) for one in known})
    parts = []
    name = str(known[0]["metric"])
    for key, words, after in (
        ("test", partial(metric_text, name), f"test {metric_words(name)}"),
        ("epoch_seconds", seconds_text, "per epoch"),
        ("wire_bytes_per_epoch", bytes_text, "on the wire per epoch"),
    ):
        values = finite(number(one[key]) for one in known)
        if values:
            low, high = words(min(values)), words(max(values))
            parts.append(join(tag("b", low if low == high else f"{low} to {high}"), f" {after}"))
    return join(f"{len(known)} runs on {', '.join(graphs)}", ": " if parts else "", *commas(parts))


def subtitle(run: Run) -> str:
    """The graph's size, the model, when the run began and what became of it."""
    known, start = facts(run), run.first.start
    found = known.get("partition")
    whole = found if isinstance(found, dict) else {}
    # A worker's start event counts the edges of its own shard; only the partition knows all of them.
    edges = whole.get("num_edges", start.get("edges") if number(known["workers"]) == 1 else None)
    sizes = ((start.get("nodes"), "node"), (edges, "edge"), (start.get("features"), "feature"))
    parts = [plural(count, word) for count, word in sizes if math.isfinite(number(count))]
    if number(start.get("classes")) > 0:
        kind = "value" if start.get("metric") in VALUE_METRICS else "classe"
        parts.append(plural(start["classes"], kind).replace("1 classe", "1 class"))
    if known.get("model"):
        parts.append(f"model {known['model']}")
    if known.get("seed") is not None:
        parts.append(f"seed {known['seed']}")
    if known.get("kernels"):
        parts.append(f"{known['kernels']} kernels")
    return ", ".join(parts)


def moment(run: Run) -> str:
    """When the run began, how long it took and how it ended."""
    begun, ended = number(run.first.start.get("time")), number(run.first.end.get("time"))
    parts = []
    if math.isfinite(begun):
        parts.append(datetime.fromtimestamp(begun, tz=UTC).strftime("%Y-%m-%d %H:%M UTC"))
    if ended > begun:
        parts.append(f"took {seconds_text(ended - begun)}")
    parts.append(
        {"finished": "finished", "early-stopped": "stopped early by its own rule"}.get(
            str(facts(run)["status"]), str(facts(run)["status"])
        )
    )
    return ", ".join(parts)


def tiles(run: Run) -> Html:
    """The key numbers, each with a line that puts it in proportion."""
    known = facts(run)
    name = str(known["metric"])
    metric, test, val = metric_words(name), metric_text(name, known["test"]), metric_text(name, known["val"])
    at = f" at epoch {known['best_epoch']}" if known.get("best_epoch") is not None else ""
    total = number(known.get("wire_bytes_total"))
    weights = number(known.get("gradient_bytes_per_epoch"))
    rows = [
        (f"test {metric}", test, f"validation {val}{at}"),
        ("training loss", number_text(known["train_loss"]), f"after {plural(known['epochs'], 'epoch')}"),
        ("time per epoch", seconds_text(known["epoch_seconds"]), "median, evaluation apart"),
        (
            "waiting for the wire",
            percent_text(share(known["wait_seconds"], known["epoch_seconds"])),
            f"{seconds_text(known['wait_seconds'])} of an epoch",
        ),
        (
            "wire per epoch",
            bytes_text(known["wire_bytes_per_epoch"]),
            (f"and {bytes_text(weights)} for weights" if weights > 0 else "all workers")
            + (f"; {bytes_text(total)} in all" if total > 0 else ""),
        ),
        ("peak memory", bytes_text(known["peak_memory_bytes"]), "of the largest worker"),
    ]
    return tag(
        "dl",
        *(
            tag(
                "div",
                tag("dt", name),
                tag("dd", big(value), class_="big"),
                tag("dd", more, class_="more"),
                class_="tile",
            )
            for name, value, more in rows
        ),
        class_="tiles",
    )


def big(value: str) -> Html:
    """A number with its unit set smaller."""
    amount, _, unit = value.partition(" ")
    return join(amount, tag("small", unit)) if unit and " " not in unit else join(value)


Column = tuple[str, Callable[[Json], float], Callable[[object], str], Callable[[list[float]], float] | None]


def comparison(runs: list[Named]) -> Html:
    """A row for every run; the best of a column is bold where better has a meaning."""
    known = [facts(one.run) for one in runs]
    name = str(known[0]["metric"])
    words, best = partial(metric_text, name), best_of(name)

    def value(key: str) -> Callable[[Json], float]:
        return lambda one: number(one.get(key))

    columns: list[Column] = [
        (f"test {metric_words(name)}", value("test"), words, best),
        ("validation", value("val"), words, best),
        ("loss", value("train_loss"), number_text, min),
        ("time per epoch", value("epoch_seconds"), seconds_text, min),
        ("waiting", lambda one: share(one["wait_seconds"], one["epoch_seconds"]), percent_text, min),
        ("wire per epoch", value("wire_bytes_per_epoch"), bytes_text, min),
        ("gradients per epoch", value("gradient_bytes_per_epoch"), bytes_text, None),
        ("peak memory", value("peak_memory_bytes"), bytes_text, min),
        ("epochs", value("epochs"), count_text, None),
    ]
    tops = []
    for _, pick, spell, better in columns:
        values = finite(pick(one) for one in known)
        distinct = len({spell(item) for item in values}) > 1
        tops.append(spell(better(values)) if better and distinct else None)
    rows = [
        [
            join(tag("i", class_=f"swatch run s{one.slot}"), one.label),
            *(
                (spell(pick(fact)), "best" if spell(pick(fact)) == top else "")
                for (_, pick, spell, _), top in zip(columns, tops, strict=True)
            ),
        ]
        for one, fact in zip(runs, known, strict=True)
    ]
    return table(["run", *(name for name, *_ in columns)], rows, "Comparison of the runs", class_="compare")
