"""The HTML page of a comparison: one self-contained file, made from `compare.json` and the run folders beside it."""

from __future__ import annotations

import math
import os
import shlex
from functools import partial
from pathlib import Path

from halowire.report.compare_figures import Compared, compare_figures, metric_name, metric_of
from halowire.report.compare_words import columns, count_line, mean, ratio_text
from halowire.report.html import head
from halowire.report.markup import Html, join, tag
from halowire.report.overview import plural
from halowire.report.run import Json, read_object, read_run
from halowire.report.series import finite
from halowire.report.settings_section import unbroken
from halowire.report.tables import fold, table
from halowire.report.units import bytes_text, is_share, metric_text, number_text, seconds_text

SLOTS = (0, 1, 2, 3, 4, 6, 7, 8)
"""Colours of the recipes, in their order; grey is kept for the one that sends nothing."""
GREY = 5
CLOSE = 0.003
"""Points of accuracy below `exact` (as a fraction) within which the headline calls a recipe as good."""


def write_compare_page(folder: Path) -> Path:
    """Write `compare.html` beside `compare.json`."""
    record = read_object(folder / "compare.json")
    if "runs" not in record:
        from halowire.kernels.errors import InputError

        raise InputError(f"{folder} has no readable compare.json: give the folder that `halowire compare --out` wrote")
    target = folder / "compare.html"
    passing = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    passing.write_text(compare_page(record, folder), encoding="utf-8")
    passing.replace(target)
    return target


def compare_page(record: Json, folder: Path) -> str:
    """The whole page as text."""
    recipes = compared(record, folder)
    body = tag("body", tag("main", *top(record, recipes), *sections(record, recipes)), tag("footer", footer(folder)))
    title = f"{record['graph']}: {', '.join(record['recipes'])}"
    return f"<!doctype html>\n{tag('html', head(title), body, lang='en')}\n"


def compared(record: Json, folder: Path) -> list[Compared]:
    """The recipes that have a finished run, each with a colour of its own."""
    slots = iter(SLOTS * len(record["recipes"]))
    found = []
    for name in record["recipes"]:
        slot = GREY if name == "isolated" else next(slots)
        entries = [run for run in record["runs"] if run["recipe"] == name]
        if entries:
            runs = [read_run(folder / run["folder"]) for run in entries]
            found.append(Compared(name, slot, record["aggregated"][name], entries, runs))
    return found


def top(record: Json, recipes: list[Compared]) -> list[object]:
    """Headline, what was compared, what to beware of, the table."""
    missing = len(record["recipes"]) * len(record["seeds"]) - len(record["runs"])
    warned = [f"{plural(missing, 'run')} of the comparison not finished yet."] if missing else []
    warned += [str(note) for note in record.get("notes", [])]
    settings = [f"{name.replace('_', '-')} {value}" for name, value in record["settings"].items()]
    under = ", ".join([f"{plural(len(record['runs']), 'run')} finished", *settings])
    return [
        tag("p", tag("b", "halowire"), " comparison", class_="brand"),
        tag("h1", headline(record, recipes)),
        tag("p", under, class_="sub"),
        tag("ul", *(tag("li", note) for note in warned), class_="notes") if warned else None,
        tag("div", overview(record, recipes), tag("p", count_line(record), class_="quiet under"), class_="compare-box")
        if recipes
        else None,
    ]


def headline(record: Json, recipes: list[Compared]) -> Html:
    """The cheapest recipe that is as good as `exact`, if there is one; else what range was reached."""
    begin = f"{record['graph']}, {plural(record['workers'], 'worker')}, {plural(len(record['seeds']), 'seed')}"
    if not recipes:
        return join(f"{begin}: no run is finished yet")
    # Points of a fraction can be close in themselves; of an error nobody knows how much is little.
    close = [one for one in recipes if is_share(metric_name(record)) and as_good(one)]
    if close:
        best = min(close, key=lambda one: mean(one.numbers["halo_bytes"]))
        against = best.numbers["to_exact"]
        gap = 100 * mean(against["test"])
        where = (
            f"{abs(gap):.2f} points {'above' if gap > 0 else 'below'} exact" if abs(gap) >= 0.005 else "as exact does"
        )
        return join(
            f"{begin}: {best.name} reaches ", tag("b", metric_text(metric_name(record), mean(best.numbers["test"]))),
            f" test {metric_of(record)}, {where}, with ", tag("b", part(mean(against["halo_bytes"]))),
            " of its halo bytes and ", tag("b", part(mean(against["seconds"]))), " of its time",
        )  # fmt: skip
    tests = finite(mean(one.numbers["test"]) for one in recipes)
    sent = finite(mean(one.numbers["halo_bytes"]) for one in recipes)
    parts = [
        join(tag("b", span([words(value) for value in (min(values), max(values))])), after)
        for values, words, after in (
            (tests, partial(metric_text, metric_name(record)), f" test {metric_of(record)}"),
            (sent, bytes_text, " of halos in training"),
        )
        if values
    ]
    return join(begin, ": " if parts else "", *(join(", " if index else "", part) for index, part in enumerate(parts)))


def part(share: float) -> str:
    """A share inside a sentence: 71%, 1/22."""
    return ratio_text(share) if share < 0.0995 else f"{100 * share:.0f}%"


def as_good(one: Compared) -> bool:
    """Whether a recipe sends fewer bytes than `exact` and is at most ``CLOSE`` below it."""
    against = one.numbers.get("to_exact", {})
    return mean(against.get("test")) >= -CLOSE and 0 < mean(against.get("halo_bytes")) < 1


def span(ends: list[str]) -> str:
    """low to high, or one of them where they read the same."""
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def overview(record: Json, recipes: list[Compared]) -> Html:
    """A row for every recipe; the best of a column is bold where better has a meaning."""
    wanted = columns(record)
    rows = []
    tops = []
    for column in wanted:
        values = finite(column.value(one.numbers) for one in recipes)
        tops.append(column.best(values) if column.best and len(set(values)) > 1 else math.nan)
    for one in recipes:
        name = join(tag("i", class_=f"swatch run s{one.slot}"), one.name)
        cells = [
            (column.words(one.numbers), "best" if column.value(one.numbers) == best else "")
            for column, best in zip(wanted, tops, strict=True)
        ]
        rows.append([name, *cells])
    return table(["recipe", *(column.head for column in wanted)], rows, "Comparison of the recipes", class_="compare")


def sections(record: Json, recipes: list[Compared]) -> list[object]:
    """Figures, the recipes in words, every run, how to repeat it."""
    if not recipes:
        return []
    drawn = compare_figures(record, recipes)
    words = [[name, summary] for name, summary in record.get("summaries", {}).items()]
    return [
        *([tag("h2", "How they compare"), drawn] if "<figure" in drawn else []),
        tag("h2", "The recipes"),
        table([], words, "The recipes", class_="words"),
        fold("Every run", runs_table(record)),
        tag("h2", "Run it again"),
        tag("pre", *unbroken(command(record)), class_="command"),
    ]


def runs_table(record: Json) -> Html:
    """The numbers of every run."""
    spell = partial(metric_text, metric_name(record))
    heads = ("test", "validation", "loss", "best epoch", "epochs", "time per epoch", "halo bytes per epoch")
    rows = [
        [
            run["folder"], spell(run["test"]), spell(run["val"]), number_text(run["train_loss"]),
            run["best_epoch"], run["epochs"], seconds_text(run["epoch_seconds"]),
            bytes_text(run["halo_bytes_per_epoch"]),
        ]
        for run in record["runs"]
    ]  # fmt: skip
    return table(["run", *heads], rows, "Every run")


def command(record: Json) -> str:
    """The shell command that repeats the comparison."""
    words = ["halowire", "compare", str(record.get("source") or record["graph"])]
    words += ["--recipes", ",".join(record["recipes"]), "--workers", str(record["workers"])]
    words += ["--seeds", str(len(record["seeds"]))]
    if record["seeds"] and record["seeds"][0]:
        words += ["--seed", str(record["seeds"][0])]
    for name, value in record["settings"].items():
        flag = f"--{name.replace('_', '-')}"
        words += [flag] if value is True else [] if value is False else [flag, str(value)]
    return shlex.join([*words, "--out", "DIR"])


def footer(folder: Path) -> str:
    """Where the numbers come from."""
    return f"Made by halowire from {folder}. KiB and MiB are 1024 and 1024² bytes."
