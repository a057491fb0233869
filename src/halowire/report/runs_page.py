"""`report.html`: the page of one run, or of several side by side, made from their folders alone."""

from __future__ import annotations

from pathlib import Path

from halowire.errors import InputError
from halowire.files import write_text
from halowire.report import sections
from halowire.report.facts import ShownRun, notes, shown_runs
from halowire.report.markup import Html, tag
from halowire.report.page import notes_list, page
from halowire.report.run_files import RunFiles, read_run
from halowire.report.run_timelines import write_trace


def write_report(run_folders: list[Path], out: Path) -> Path:
    """Write the report of one run, or of several in one, to ``out``: a file, or a folder for report.html.

    The timelines of one run's pipeline are also written as a Chrome trace, next to the page.
    """
    folders = [Path(folder) for folder in run_folders]
    if not folders:
        raise InputError("no run folder was given: name at least one folder that `halowire train --out` wrote")
    runs = [read_run(folder) for folder in folders]
    text = runs_page(runs)
    target = Path(out) / "report.html" if Path(out).is_dir() else Path(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, text)
    if len(runs) == 1:
        write_trace(runs[0], target)
    return target


def runs_page(runs: list[RunFiles]) -> str:
    """The whole page as text."""
    shown = shown_runs(runs)
    graph = shown[0].facts["graph"]
    title = f"{graph}, {shown[0].facts['recipe']}" if len(runs) == 1 else f"{len(runs)} runs on {graph}"
    content = [*_top(shown), *_sections(shown)]
    return page(title, content, ", ".join(str(run.folder) for run in runs))


def _top(runs: list[ShownRun]) -> list[object]:
    """Headline, what was run, what to beware of, key numbers."""
    one, several = runs[0], len(runs) > 1
    brand = "comparison" if several else sections.when_and_how_it_ended(one)
    return [
        tag("p", tag("b", "halowire"), " ", brand, class_="brand"),
        tag("h1", sections.headline(runs)),
        None if several else tag("p", sections.subtitle(one), class_="sub"),
        notes_list([f"{run.label}: {note}" if several else note for run in runs for note in notes(run)]),
        tag("div", sections.runs_table(runs), class_="compare-box") if several else sections.key_numbers(one),
    ]


def _sections(runs: list[ShownRun]) -> list[object]:
    """The sections with their titles, those without content left out, and how to run it again."""
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
