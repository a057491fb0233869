"""Progress over many runs: a live bar that follows the events of the run at work, or a line per run, or nothing."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as RichProgress

from halowire.report.console import Console
from halowire.report.progress import clock
from halowire.report.run import Json
from halowire.report.units import bytes_text, metric_text, seconds_text

PERIOD = 0.5
"""Seconds between two looks at the events of the run."""


class RunsProgress:
    """``total`` runs of ``epochs`` epochs each; a bar on a terminal, a line per run elsewhere."""

    def __init__(self, console: Console, total: int, epochs: int) -> None:
        self._console, self._total, self._epochs = console, total, epochs
        self._done, self._spent, self._timed = 0, 0.0, 0
        self._begun = time.monotonic()
        self._watched: Path | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24, complete_style="cyan", finished_style="green"),
            TextColumn("{task.fields[facts]}"),
            console=console.rich,
            refresh_per_second=4,
            disable=not console.terminal,
        )
        self._task = self._bar.add_task("", total=total * epochs, facts="")

    def start(self, name: str, folder: Path) -> None:
        """A run begins; its folder will hold the events."""
        self._begun = time.monotonic()
        self._watched = folder / "events-0.jsonl"
        self._bar.update(self._task, description=f"{self._done + 1}/{self._total} {name}")

    def finish(self, name: str, summary: Json, earlier: bool = False) -> None:
        """A run is finished, just now or in an ``earlier`` call."""
        self._done, self._watched = self._done + 1, None
        took = time.monotonic() - self._begun
        if not earlier:
            self._spent, self._timed = self._spent + took, self._timed + 1
        wide = len(str(self._total))
        facts = [
            f"test {metric_text(str(summary.get('metric')), summary.get('test'))}",
            f"{seconds_text(summary.get('epoch_seconds'))}/epoch",
            f"{bytes_text(summary.get('wire_bytes_per_epoch'))}/epoch",
            "finished before" if earlier else f"took {clock(took)}",
        ]
        if self._timed and self._done < self._total:
            facts.append(f"{clock(self._left(0.0))} left")
        self._console.line(f"[{self._done:>{wide}}/{self._total}] {name}: {', '.join(facts)}")
        self._bar.update(self._task, completed=self._done * self._epochs, facts="")

    def _left(self, part: float) -> float:
        """Seconds to go, from the mean of the finished runs; ``part`` of the run at work is done."""
        return self._spent / self._timed * (self._total - self._done - part)

    def _watch(self) -> None:
        while not self._over.wait(PERIOD):
            path = self._watched
            epoch = last_epoch(path) if path is not None else None
            if epoch is None or path is not self._watched:
                continue
            facts = f"epoch {min(epoch + 1, self._epochs)}/{self._epochs}"
            if self._timed:
                facts += f"  {clock(self._left((epoch + 1) / self._epochs))} left"
            done = self._done * self._epochs + min(epoch + 1, self._epochs)
            self._bar.update(self._task, completed=done, facts=facts)

    def __enter__(self) -> Self:
        self._bar.start()
        if self._console.terminal:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        if kind is None:
            self._bar.update(self._task, description=f"{self._done}/{self._total} runs")
        self._bar.stop()


def last_epoch(path: Path) -> int | None:
    """The newest epoch in a file of events that is being written; None before the first."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 16384))
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        try:
            event = json.loads(line)
            return int(event["epoch"])
        except (ValueError, KeyError, TypeError):
            continue
    return None
