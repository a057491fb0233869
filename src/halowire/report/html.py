"""The HTML report: one self-contained file, made from run folders alone."""

from __future__ import annotations

import os
from pathlib import Path

from halowire.report.chrome_trace import write_trace
from halowire.report.facts import facts, groups, labels, notes
from halowire.report.figures import SLOTS, Named, figures
from halowire.report.layers_section import layers_section
from halowire.report.markup import Html, tag
from halowire.report.overlap_section import overlap_section
from halowire.report.overview import comparison, headline, moment, subtitle, tiles
from halowire.report.partition_section import partition_section
from halowire.report.pipeline_section import pipeline_section
from halowire.report.run import Run, read_run
from halowire.report.settings_section import differing, grouped, repeat
from halowire.report.style import style_sheet


def write_report(run_folders: list[Path], out: Path) -> Path:
    """Write the report of one run, or of several in one, to ``out``: a file, or a folder for report.html.

    The timelines of one run's pipeline are also written as a Chrome trace, next to the page.
    """
    folders = [Path(folder) for folder in run_folders]
    if not folders:
        from halowire.kernels.errors import InputError

        raise InputError("no run folder was given: name at least one folder that `halowire train --out` wrote")
    runs = [read_run(folder) for folder in folders]
    page = page_of(runs)
    target = Path(out) / "report.html" if Path(out).is_dir() else Path(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    passing = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    passing.write_text(page, encoding="utf-8")
    passing.replace(target)
    if len(runs) == 1:
        write_trace(runs[0], target)
    return target


def page_of(runs: list[Run]) -> str:
    """The whole page as text."""
    names = labels(runs)
    shared = groups(runs, names)
    slot = {group: index % SLOTS for index, group in enumerate(dict.fromkeys(shared))}
    named = [Named(name, slot[group], run, group) for name, run, group in zip(names, runs, shared, strict=True)]
    known = facts(runs[0])
    title = f"{known['graph']}, {known['recipe']}" if len(runs) == 1 else f"{len(runs)} runs on {known['graph']}"
    body = tag("body", tag("main", *top(named), *sections(named)), tag("footer", footer(named)))
    return f"<!doctype html>\n{tag('html', head(title), body, lang='en')}\n"


def head(title: str) -> Html:
    """The page's head: its title and its style."""
    return tag(
        "head",
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        tag("title", f"{title} – halowire"),
        tag("style", Html(style_sheet())),
    )


def top(runs: list[Named]) -> list[object]:
    """Headline, what was run, what to beware of, key numbers."""
    several = len(runs) > 1
    warned = [(one.label, note) for one in runs for note in notes(one.run)]
    return [
        tag("p", tag("b", "halowire"), " ", "comparison" if several else moment(runs[0].run), class_="brand"),
        tag("h1", headline(runs)),
        tag("p", subtitle(runs[0].run), class_="sub") if not several else None,
        tag("ul", *(tag("li", f"{name}: {note}" if several else note) for name, note in warned), class_="notes")
        if warned
        else None,
        tag("div", comparison(runs), class_="compare-box") if several else tiles(runs[0].run),
    ]


def sections(runs: list[Named]) -> list[object]:
    """Figures, pipeline, overlap, partition, layers, settings, how to repeat it; what is empty is left out."""
    drawn = figures(runs)
    parts: list[object] = []
    if "<figure" in drawn:
        parts += [tag("h2", "How it went"), drawn]
    else:
        parts.append(tag("p", "No epoch was recorded, so there is nothing to draw.", class_="quiet"))
    drawn_pipeline = pipeline_section(runs)
    if drawn_pipeline is not None:
        parts += [tag("h2", "The pipeline"), drawn_pipeline]
    hidden = overlap_section(runs)
    if hidden is not None:
        parts += [tag("h2", "Overlap"), hidden]
    several = len(runs) > 1
    owned = None if several else partition_section(runs[0].run)
    if owned is not None:
        parts += [tag("h2", "Who owns what"), owned]
    layers = None if several else layers_section(runs[0].run)
    if layers is not None:
        parts += [tag("h2", "Layers"), layers]
    settings = differing(runs) if several else grouped(runs[0])
    if settings is not None:
        parts += [tag("h2", "Settings"), settings]
    # The commands of several runs are folded away, and paper cannot unfold them.
    parts.append(tag("h2", "Run it again", class_="screen" if several else None))
    parts += [repeat(one, several) for one in runs]
    return parts


def footer(runs: list[Named]) -> str:
    """Where the numbers come from."""
    return (
        "Made by halowire from "
        + ", ".join(str(one.run.folder) for one in runs)
        + ". KiB and MiB are 1024 and 1024² bytes."
    )
