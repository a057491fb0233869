"""Progress of training is shown as a live bar on a terminal, as lines elsewhere, and not at all when quiet."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from rich.console import Console as RichConsole
from rich.progress import BarColumn, Progress, TextColumn

from halowire.report.run_files import last_epoch
from halowire.report.units import Json, bytes_text, metric_text, number, seconds_text

NARROW = 100
"""A terminal with fewer columns than this gets a bar without the name of the run."""
PERIOD = 0.5
"""Seconds between two readings of a run's events."""


class EpochProgress:
    """Is told epoch by epoch how one run goes; this base class shows nothing, its subclasses show the state."""

    def __init__(self, total: int, description: str, metric: str) -> None:
        """Begin for a run of ``total`` epochs, which is called ``description`` and measured by ``metric``."""
        self.total = total
        self.description = description
        self.metric = metric
        self.done = 0
        self.loss = math.nan
        self.value = math.nan
        self.seconds = math.nan
        self.wire = math.nan
        self._first: tuple[int, float] | None = None

    def epoch(self, epoch: int, loss: float, seconds: float, wire_bytes: float) -> None:
        """Take note that epoch number ``epoch``, counted from 0, is done."""
        self.done = epoch + 1
        self.loss = number(loss)
        self.seconds = number(seconds)
        self.wire = number(wire_bytes)
        self._first = self._first or (self.done, time.monotonic())
        self.show(evaluated=False)

    def evaluated(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Take note of the evaluation after epoch number ``epoch``; ``metrics`` holds the metric of every split."""
        self.done = epoch + 1
        self.value = number(metrics.get("val", self.value))
        self.show(evaluated="val" in metrics)

    def show(self, evaluated: bool) -> None:
        """Show the state; ``evaluated`` says whether it has a new metric."""

    def left(self) -> float:
        """Seconds to go, from the mean epoch since the first (slow) one, with evaluations; NaN before the second."""
        if self._first is None or self.done == self._first[0]:
            return math.nan
        done, begun = self._first
        return (time.monotonic() - begun) / (self.done - done) * (self.total - self.done)

    def facts(self) -> list[str]:
        """The state in words: loss 0.8120, val 78.1%, 0.42 s/epoch, 12.3 MiB/epoch; unknown values are left out."""
        parts = [
            f"loss {self.loss:.4f}" if math.isfinite(self.loss) else "loss –",
            f"val {metric_text(self.metric, self.value):>5}",
        ]
        if math.isfinite(self.seconds):
            parts.append(f"{seconds_text(self.seconds)}/epoch")
        if math.isfinite(self.wire):
            parts.append(f"{bytes_text(self.wire)}/epoch")
        return parts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the display."""


class EpochLines(EpochProgress):
    """Writes a line for every evaluation; the last epoch always has one."""

    def __init__(self, total: int, description: str, metric: str, write: Callable[[str], None]) -> None:
        super().__init__(total, description, metric)
        self._write = write

    def show(self, evaluated: bool) -> None:
        """Write a line when there is something new to say."""
        if not evaluated:
            return
        wide = len(str(self.total))
        parts = [f"{self.description} epoch {self.done:>{wide}}/{self.total}".strip(), *self.facts()]
        if self.done < self.total and math.isfinite(self.left()):
            parts.append(f"{clock(self.left())} left")
        self._write(", ".join(parts))


class EpochBar(EpochProgress):
    """Shows a live bar with the state beside it; lines printed on the same console appear above the bar."""

    def __init__(self, total: int, description: str, metric: str, console: RichConsole) -> None:
        super().__init__(total, description, metric)
        narrow = console.width < NARROW
        name = [] if narrow else [TextColumn("{task.description}")]
        self._bar = Progress(
            *name,
            BarColumn(bar_width=10 if narrow else 28, complete_style="cyan", finished_style="green"),
            TextColumn("{task.completed:>" + str(len(str(total))) + "}/{task.total}"),
            TextColumn("{task.fields[facts]}", style="default"),
            console=console,
            refresh_per_second=8,
        )
        self._task = self._bar.add_task(description, total=total, facts="")

    def show(self, evaluated: bool) -> None:
        """Move the bar and renew the words beside it."""
        parts = self.facts()
        if self.done < self.total:
            parts.append(f"{clock(self.left())} left")
        self._bar.update(self._task, completed=self.done, facts="  ".join(parts))

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()


class RunsProgress:
    """Shows how far ``total`` runs of ``epochs`` epochs each are: a line for every run and, on a ``terminal``, a bar.

    ``console`` draws the bar, which follows the events of the current run; ``write`` prints the lines.
    """

    def __init__(
        self, total: int, epochs: int, write: Callable[[str], None], console: RichConsole, terminal: bool
    ) -> None:
        self._total = total
        self._epochs = epochs
        self._write = write
        self._terminal = terminal
        self._done = 0
        self._timed = 0
        self._spent = 0.0
        self._begun = time.monotonic()
        self._watched: Path | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24, complete_style="cyan", finished_style="green"),
            TextColumn("{task.fields[facts]}"),
            console=console,
            refresh_per_second=4,
            disable=not terminal,
        )
        self._task = self._bar.add_task("", total=total * epochs, facts="")

    def start(self, name: str, folder: Path) -> None:
        """Take note that a run begins; it writes its events to ``folder``."""
        self._begun = time.monotonic()
        self._watched = folder / "events-0.jsonl"
        self._bar.update(self._task, description=f"{self._done + 1}/{self._total} {name}")

    def finish(self, name: str, summary: Json, earlier: bool = False) -> None:
        """Take note that a run is finished, just now or in an ``earlier`` call."""
        self._done += 1
        self._watched = None
        took = time.monotonic() - self._begun
        if not earlier:
            self._spent += took
            self._timed += 1
        wide = len(str(self._total))
        facts = [
            f"test {metric_text(str(summary.get('metric')), summary.get('test'))}",
            f"{seconds_text(summary.get('epoch_seconds'))}/epoch",
            f"{bytes_text(summary.get('wire_bytes_per_epoch'))}/epoch",
            "finished before" if earlier else f"took {clock(took)}",
        ]
        if self._timed and self._done < self._total:
            facts.append(f"{clock(self._left(0.0))} left")
        self._write(f"[{self._done:>{wide}}/{self._total}] {name}: {', '.join(facts)}")
        self._bar.update(self._task, completed=self._done * self._epochs, facts="")

    def _left(self, part: float) -> float:
        """Seconds to go, from the mean time of the finished runs; the share ``part`` of the current run is done."""
        return self._spent / self._timed * (self._total - self._done - part)

    def _watch(self) -> None:
        """Move the bar with the newest epoch of the current run, until all runs are over."""
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
        if self._terminal:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        if kind is None:
            self._bar.update(self._task, description=f"{self._done}/{self._total} runs")
        self._bar.stop()


def clock(seconds: float) -> str:
    """Seconds as 0:08, 12:34 or 1:02:03, so that the width does not jump while the number changes."""
    if not math.isfinite(seconds):
        return "-:--"
    whole = math.ceil(seconds)
    minutes = f"{whole % 3600 // 60:02d}" if whole >= 3600 else str(whole // 60)
    return (f"{whole // 3600}:" if whole >= 3600 else "") + f"{minutes}:{whole % 60:02d}"
