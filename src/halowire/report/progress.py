"""Progress of a training run: a live bar on a terminal, a line per evaluation elsewhere, nothing when quiet."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from rich.console import Console as RichConsole
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as RichProgress

from halowire.report.units import bytes_text, metric_text, number, seconds_text

NARROW = 100
"""Columns of a terminal below which the bar keeps only what changes."""


def clock(seconds: float) -> str:
    """0:08, 12:34, 1:02:03; a width that does not jump, for a number that changes all the time."""
    if not math.isfinite(seconds):
        return "-:--"
    whole = math.ceil(seconds)
    minutes = f"{whole % 3600 // 60:02d}" if whole >= 3600 else str(whole // 60)
    return (f"{whole // 3600}:" if whole >= 3600 else "") + f"{minutes}:{whole % 60:02d}"


class Progress:
    """The state of a run, told epoch by epoch; the base of the ways to show it."""

    def begin(self, total: int, description: str, metric: str = "accuracy") -> None:
        """Remember what is to come: ``total`` epochs, measured by ``metric``."""
        self.total, self.description, self.metric = total, description, metric
        self.done = 0
        self.loss = self.value = self.seconds = self.wire = math.nan
        self._first: tuple[int, float] | None = None

    def update(
        self,
        epoch: int,
        loss: float | None = None,
        metric: float | None = None,
        seconds: float | None = None,
        wire_bytes: float | None = None,
    ) -> None:
        """Epoch number ``epoch``, counted from 0, is done; ``metric`` is its validation metric, a fraction."""
        self.done = epoch + 1
        self.loss = number(loss) if loss is not None else self.loss
        self.seconds = number(seconds) if seconds is not None else self.seconds
        self.wire = number(wire_bytes) if wire_bytes is not None else self.wire
        self.value = number(metric) if metric is not None else self.value
        self._first = self._first or (self.done, time.monotonic())
        self.show(evaluated=metric is not None)

    def evaluated(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Epoch number ``epoch`` was evaluated: fractions by split."""
        self.update(epoch, metric=metrics.get("val"))

    def show(self, evaluated: bool) -> None:
        """Show the state."""

    def left(self) -> float:
        """Seconds to go, evaluations included, from the mean since the first (slow) epoch; NaN before the second."""
        if self._first is None or self.done == self._first[0]:
            return math.nan
        done, begun = self._first
        return (time.monotonic() - begun) / (self.done - done) * (self.total - self.done)

    def facts(self) -> list[str]:
        """loss 0.812, val 78.1%, 0.42 s/epoch, 12.3 MiB/epoch; times and bytes only where they are known."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to tidy up."""


class Silence(Progress):
    """No progress at all."""


class Lines(Progress):
    """A line per evaluation; training always evaluates the last epoch."""

    def __init__(self, write: Callable[[str], None]) -> None:
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


class Bar(Progress):
    """A live bar with the state beside it; lines printed on the same console appear above it."""

    def __init__(self, console: RichConsole) -> None:
        self._console = console

    def begin(self, total: int, description: str, metric: str = "accuracy") -> None:
        """Make the bar; it is drawn from the moment the context is entered."""
        super().begin(total, description, metric)
        narrow = self._console.width < NARROW
        name = [] if narrow else [TextColumn("{task.description}")]
        bar = BarColumn(bar_width=10 if narrow else 28, complete_style="cyan", finished_style="green")
        self._bar = RichProgress(
            *name,
            bar,
            TextColumn("{task.completed:>" + str(len(str(total))) + "}/{task.total}"),
            TextColumn("{task.fields[facts]}", style="default"),
            console=self._console,
            refresh_per_second=8,
        )
        self._task = self._bar.add_task(description, total=total, facts="")

    def show(self, evaluated: bool) -> None:
        """Move the bar."""
        parts = self.facts()
        if self.done < self.total:
            parts.append(f"{clock(self.left())} left")
        self._bar.update(self._task, completed=self.done, facts="  ".join(parts))

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
