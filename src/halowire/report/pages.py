"""The two pages: `report.html` of one run or several, `compare.html` of a comparison; made from their folders alone."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from halowire.errors import InputError
from halowire.files import write_text
from halowire.report import sections
from halowire.report.comparison_record import count_line, metric_of
from halowire.report.facts import ShownRun, notes, shown_runs
from halowire.report.markup import Html, fold, notes_list, page, table, tag
from halowire.report.run_files import Json, RunFiles, read_object, read_run
from halowire.report.run_timelines import write_trace
from halowire.report.sections import ComparedRecipe
from halowire.report.units import bytes_text, metric_text, number_text, plural, seconds_text

SLOTS = (0, 1, 2, 3, 4, 6, 7, 8)
"""Colours of the recipes of a comparison, in their order; grey is kept for the one that sends nothing."""
GREY = 5


def write_report(run_folders: list[Path], out: Path) -> Path:
    """Write the report of one run, or of several in one, to ``out``: a file, or a folder for report.html.

    The timelines of one run's pipeline are also written as a Chrome trace, next to the page.
    """
    if not run_folders:
        raise InputError("no run folder was given: name at least one folder that `halowire train --out` wrote")
    runs = [read_run(Path(folder)) for folder in run_folders]
    text = _runs_page(runs)
    target = Path(out) / "report.html" if Path(out).is_dir() else Path(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, text)
    if len(runs) == 1:
        write_trace(runs[0], target)
    return target


def write_compare_page(folder: Path) -> Path:
    """Write `compare.html` beside the `compare.json` in ``folder``."""
    record = read_object(folder / "compare.json")
    if "runs" not in record:
        raise InputError(f"{folder} has no readable compare.json: give the folder that `halowire compare --out` wrote")
    target = folder / "compare.html"
    write_text(target, _comparison_page(record, folder))
    return target


def _runs_page(runs: list[RunFiles]) -> str:
    """The text of the page of one run or several."""
    shown = shown_runs(runs)
    graph = shown[0].facts["graph"]
    title = f"{graph}, {shown[0].facts['recipe']}" if len(runs) == 1 else f"{len(runs)} runs on {graph}"
    content = [*_top_of_runs(shown), *_sections_of_runs(shown)]
    return page(title, content, ", ".join(str(run.folder) for run in runs))


def _top_of_runs(runs: list[ShownRun]) -> list[object]:
    """The headline, what was run, what to beware of, and the key numbers."""
    one, several = runs[0], len(runs) > 1
    return [
        _brand("comparison" if several else sections.when_and_how_it_ended(one)),
        tag("h1", sections.headline(runs)),
        None if several else tag("p", sections.subtitle(one), class_="sub"),
        notes_list([f"{run.label}: {note}" if several else note for run in runs for note in notes(run)]),
        tag("div", sections.runs_table(runs), class_="compare-box") if several else sections.key_numbers(one),
    ]


def _sections_of_runs(runs: list[ShownRun]) -> list[object]:
    """The sections that have content, each below its title, and how to run it again."""
    one, several = runs[0], len(runs) > 1
    figures = [*sections.curve_figures(runs), *sections.epoch_figures(runs)]
    found: list[tuple[str, Html | None]] = [
        ("How it went", tag("div", *figures, class_="figures") if figures else None),
        ("The pipeline", None if several else sections.pipeline_figure(one)),
        ("Overlap", sections.how_hidden(runs)),
        ("Who owns what", None if several else sections.who_owns_what(one)),
        ("Layers", None if several else sections.serving_kernels(one)),
        ("Settings", sections.differing_settings(runs) if several else sections.settings_by_group(one)),
    ]
    nothing = tag("p", "No epoch was recorded, so there is nothing to draw.", class_="quiet")
    return [
        None if figures else nothing,
        *(part for title, content in found if content is not None for part in (tag("h2", title), content)),
        # The commands of several runs are folded away, and paper cannot unfold them.
        tag("h2", "Run it again", class_="screen" if several else None),
        *(sections.repeat(run, several) for run in runs),
    ]


def _comparison_page(record: Json, folder: Path) -> str:
    """The text of the page of a comparison."""
    recipes = _compared(record, folder)
    title = f"{record['graph']}: {', '.join(record['recipes'])}"
    content = [*_top_of_comparison(record, recipes), *_sections_of_comparison(record, recipes)]
    return page(title, content, str(folder))


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


def _top_of_comparison(record: Json, recipes: list[ComparedRecipe]) -> list[object]:
    """The headline, what was compared, what to beware of, and the table."""
    missing = len(record["recipes"]) * len(record["seeds"]) - len(record["runs"])
    warnings = [f"{plural(missing, 'run')} of the comparison not finished yet."] if missing else []
    warnings += [str(note) for note in record.get("notes", [])]
    settings = [f"{name.replace('_', '-')} {value}" for name, value in record["settings"].items()]
    under = tag("p", count_line(record), class_="quiet under")
    return [
        _brand("comparison"),
        tag("h1", sections.comparison_headline(record, recipes)),
        tag("p", ", ".join([f"{plural(len(record['runs']), 'run')} finished", *settings]), class_="sub"),
        notes_list(warnings),
        tag("div", sections.recipes_table(record, recipes), under, class_="compare-box") if recipes else None,
    ]


def _sections_of_comparison(record: Json, recipes: list[ComparedRecipe]) -> list[object]:
    """The figures, the recipes in words, every run, and how to repeat the comparison."""
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
        sections.repeat_comparison(record),
    ]


def _every_run(record: Json) -> Html:
    """A table of the numbers of every run."""
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


def _brand(words: str) -> Html:
    """The line at the very top: the program's name, and what the page is of."""
    return tag("p", tag("b", "halowire"), " ", words, class_="brand")
