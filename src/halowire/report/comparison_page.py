"""`compare.html`: the page of a comparison, made from `compare.json` and the run folders beside it."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

from halowire.errors import InputError
from halowire.files import write_text
from halowire.report import sections
from halowire.report.comparison_record import metric_of
from halowire.report.comparison_table import count_line
from halowire.report.markup import Html, fold, table, tag
from halowire.report.page import notes_list, page
from halowire.report.run_files import Json, read_object, read_run
from halowire.report.sections import ComparedRecipe
from halowire.report.units import bytes_text, metric_text, number_text, plural, seconds_text

SLOTS = (0, 1, 2, 3, 4, 6, 7, 8)
"""Colours of the recipes, in their order; grey is kept for the one that sends nothing."""
GREY = 5


def write_compare_page(folder: Path) -> Path:
    """Write `compare.html` beside `compare.json`."""
    record = read_object(folder / "compare.json")
    if "runs" not in record:
        raise InputError(f"{folder} has no readable compare.json: give the folder that `halowire compare --out` wrote")
    target = folder / "compare.html"
    write_text(target, comparison_page(record, folder))
    return target


def comparison_page(record: Json, folder: Path) -> str:
    """The whole page as text."""
    recipes = _compared(record, folder)
    title = f"{record['graph']}: {', '.join(record['recipes'])}"
    return page(title, [*_top(record, recipes), *_sections(record, recipes)], str(folder))


def _compared(record: Json, folder: Path) -> list[ComparedRecipe]:
    """The recipes that have a finished run, each with a colour of its own."""
    slots = iter(SLOTS * len(record["recipes"]))
    found = []
    for name in record["recipes"]:
        slot = GREY if name == "isolated" else next(slots)
        entries = [run for run in record["runs"] if run["recipe"] == name]
        if entries:
            runs = [read_run(folder / run["folder"]) for run in entries]
            found.append(ComparedRecipe(name, slot, record["aggregated"][name], entries, runs))
    return found


def _top(record: Json, recipes: list[ComparedRecipe]) -> list[object]:
    """Headline, what was compared, what to beware of, the table."""
    missing = len(record["recipes"]) * len(record["seeds"]) - len(record["runs"])
    notes = [f"{plural(missing, 'run')} of the comparison not finished yet."] if missing else []
    notes += [str(note) for note in record.get("notes", [])]
    settings = [f"{name.replace('_', '-')} {value}" for name, value in record["settings"].items()]
    under = tag("p", count_line(record), class_="quiet under")
    return [
        tag("p", tag("b", "halowire"), " comparison", class_="brand"),
        tag("h1", sections.comparison_headline(record, recipes)),
        tag("p", ", ".join([f"{plural(len(record['runs']), 'run')} finished", *settings]), class_="sub"),
        notes_list(notes),
        tag("div", sections.recipes_table(record, recipes), under, class_="compare-box") if recipes else None,
    ]


def _sections(record: Json, recipes: list[ComparedRecipe]) -> list[object]:
    """Figures, the recipes in words, every run, how to repeat it."""
    if not recipes:
        return []
    figures = sections.comparison_figures(record, recipes)
    words = [[name, summary] for name, summary in record.get("summaries", {}).items()]
    return [
        *([tag("h2", "How they compare"), tag("div", *figures, class_="figures")] if figures else []),
        tag("h2", "The recipes"),
        table([], words, "The recipes", class_="words"),
        fold("Every run", _every_run(record)),
        tag("h2", "Run it again"),
        sections.command_box(_command(record)),
    ]


def _every_run(record: Json) -> Html:
    """The numbers of every run."""
    spell = partial(metric_text, metric_of(record))
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


def _command(record: Json) -> str:
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
