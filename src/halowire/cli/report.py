"""`halowire report RUN [RUN ...]` writes the HTML page of one run, or of several side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from halowire.cli.parse import parse
from halowire.errors import InputError
from halowire.report import write_report


@dataclass(frozen=True)
class Arguments:
    """Write the HTML page of one run, or one page that compares several.

    Where a run has stages or chunks, its timeline is written beside the page (.trace.json) for chrome://tracing.
    """

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """run folders, as `halowire train --out` wrote them"""
    out: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """HTML file; by default report.html in the run folder, or in the current folder for several runs"""


def run(argv: list[str]) -> int:
    """Write the page of the given runs, and print where the page is."""
    arguments = parse(Arguments, "report", argv)
    folders = [Path(name) for name in arguments.runs]
    if not folders:
        raise InputError("no run folder was given; use `halowire report RUN [RUN ...]`")
    for folder in folders:
        if not (folder / "config.json").exists():
            raise InputError(f"{folder} is not a run folder: it holds no config.json")
    default = folders[0] / "report.html" if len(folders) == 1 else Path("report.html")
    print(f"report in {write_report(folders, Path(arguments.out) if arguments.out else default)}")
    return 0
