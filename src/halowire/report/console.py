"""The console prints what a person sees in the terminal: lines, warnings, a progress bar, the final table."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, cast

from rich.console import Console as RichConsole
from rich.text import Text

from halowire.report.facts import served_layers
from halowire.report.machine_words import memory_owner
from halowire.report.progress import EpochBar, EpochLines, EpochProgress, RunsProgress
from halowire.report.units import bytes_text, metric_text, metric_words, number, percent_text, seconds_text, share


class LastingStream:
    """Passes text on to ``stream`` until that fails: a run goes on when the terminal or a pipe's reader has gone."""

    def __init__(self, stream: TextIO | None) -> None:
        """Write to ``stream``; None is where the program was started without one."""
        self._stream = stream

    @property
    def encoding(self) -> str:
        """The encoding of the stream, by which rich chooses the characters of the bar."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write ``text``, or nothing where the stream has failed."""
        self._try(lambda stream: stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream, unless it has failed."""
        self._try(lambda stream: stream.flush())

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        """The number of the stream's file."""
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    def _try(self, action: Callable[[TextIO], object]) -> None:
        try:
            if self._stream is not None:
                action(self._stream)
        except (OSError, ValueError):  # ValueError: it is closed
            self._stream = None


class Console:
    """Prints for a person on a terminal, or plain lines to a file or a pipe; with ``quiet``, only the final table.

    Text is printed without markup and wrapping, so that paths stay whole and logs can be searched.
    """

    def __init__(self, quiet: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.quiet = quiet
        self._out = LastingStream(out if out is not None else sys.stdout)
        self._err = LastingStream(err if err is not None else sys.stderr)
        # The stream itself decides: environment variables that force colours must not put a progress bar into a log.
        self.terminal = bool(self._out.isatty()) and not quiet
        self._rich = RichConsole(
            file=cast(TextIO, self._out), highlight=False, markup=False, emoji=False, soft_wrap=True
        )

    def line(self, text: str) -> None:
        """Print a line of news, unless the console is quiet."""
        if not self.quiet:
            self._print(text)

    def warn(self, text: str) -> None:
        """Print a warning, also when quiet: to standard error, or above the progress bar on a terminal."""
        if self.terminal:
            self._rich.print(Text.assemble(("warning: ", "bold yellow"), text))
        else:
            print(f"warning: {text}", file=self._err, flush=True)

    def progress(self, total: int, description: str, metric: str = "accuracy") -> EpochProgress:
        """A context manager whose ``epoch`` and ``evaluated`` are told how far a run of ``total`` epochs is."""
        if self.quiet:
            return EpochProgress(total, description, metric)
        if self.terminal:
            return EpochBar(total, description, metric, self._rich)
        return EpochLines(total, description, metric, self._print)

    def runs_progress(self, total: int, epochs: int) -> RunsProgress:
        """A context manager whose ``start`` and ``finish`` are told how far ``total`` runs of ``epochs`` epochs are."""
        return RunsProgress(total, epochs, self.line, self._rich, self.terminal)

    def summary_table(self, summary: dict[str, Any], report_path: Path | str | None = None) -> None:
        """Print the key numbers of a run, from its `summary.json`, and the path of its report."""
        rows = summary_rows(summary)
        if report_path is not None:
            rows.append(("report", str(report_path)))
        wide = max(len(name) for name, _ in rows)
        if self.terminal:
            self._rich.print()
        for name, value in rows:
            if self.terminal:
                # The line is never wrapped: the report's path must stay in one piece to be opened.
                self._rich.print(Text.assemble((f"{name:<{wide}}  ", "dim"), (value, "bold")))
            else:
                self._print(f"{name:<{wide}}  {value}")

    def table(self, rows: list[list[str]], heads: int = 1) -> None:
        """Print rows of cells, also when quiet; the first ``heads`` rows are the head.

        The first column is aligned left, all others right.
        """
        wide = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        for index, row in enumerate(rows):
            cells = [row[0].ljust(wide[0]), *(cell.rjust(width) for cell, width in zip(row[1:], wide[1:], strict=True))]
            line = "  ".join(cells).rstrip()
            if self.terminal:
                self._rich.print(Text(line, style="" if index >= heads else "dim"), soft_wrap=True)
            else:
                self._print(line)

    def _print(self, text: str) -> None:
        if self.terminal:
            self._rich.print(Text(text))
        else:
            print(text, file=self._out, flush=True)


def summary_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The key numbers of a run as (name, value); a dash stands for a number that is not known."""
    name = str(summary.get("metric") or "accuracy")
    test, val = (metric_text(name, summary.get(part)) for part in ("test", "val"))
    best = number(summary.get("best_epoch"))
    at = f" after epoch {best + 1:.0f}" if best >= 0 else ""
    waiting = share(summary.get("wait_seconds"), summary.get("epoch_seconds"))
    waited = f" ({seconds_text(summary.get('wait_seconds'))} of an epoch)" if math.isfinite(waiting) else ""
    rows = [
        (f"test {metric_words(name)}", f"{test} (validation {val}{at})"),
        ("time per epoch", seconds_text(summary.get("epoch_seconds"))),
        ("waiting for the wire", percent_text(waiting) + waited),
        ("wire per epoch", bytes_text(summary.get("wire_bytes_per_epoch"))),
        ("weight gradients per epoch", bytes_text(summary.get("gradient_bytes_per_epoch"))),
        ("peak memory", f"{bytes_text(summary.get('peak_memory_bytes'))} ({memory_owner(summary)})"),
    ]
    lowered = number(summary.get("lowered"))
    if lowered > 0:
        times = "once" if lowered == 1 else f"{lowered:.0f} times"
        rows.append(("learning rate", f"halved {times}, because values were not finite"))
    if layers := served_layers(summary):
        native = [name for name, one in layers.items() if one.get("path") == "native"]
        named = f" ({', '.join(native)})" if native else ""
        rows.append(("native layers", f"{len(native)} of {len(layers)}{named}"))
    status = summary.get("status")
    if status and status != "finished":
        done = number(summary.get("epochs"))
        rows.insert(0, ("status", f"{status} after {done:.0f} epochs" if math.isfinite(done) else str(status)))
    return rows
