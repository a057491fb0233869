"""What a run's epochs took: seconds, waiting and bytes, from the events that the workers wrote."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from halowire.report import mean_bubble, read_run, timelines

WAITING = ("wait", "reduce")


@dataclass(frozen=True)
class Measured:
    """Medians over the measured epochs (``fastest`` is the least); bytes are those of all workers in an epoch.

    ``waiting`` is the time for halo messages and for the sum of the weight gradients, ``halo_wait`` the former alone;
    an epoch takes as long as on its slowest worker, other times are means of the workers. ``others`` is the share of
    the machine's cores that other programs used meanwhile. Between stages, ``stage_bytes`` are sent, and ``bubble`` is
    the mean share of the recorded epoch in which a worker had no chunk in work (None: not recorded).
    """

    seconds: float
    fastest: float
    waiting: float
    halo_wait: float
    halo_bytes: float
    weight_bytes: float
    phases: dict[str, float]
    epochs: int
    others: float
    stage_bytes: float = 0.0
    bubble: float | None = None

    @property
    def share(self) -> float:
        """The share of the epoch that is spent waiting for the wire."""
        return self.waiting / self.seconds

    @property
    def all_bytes(self) -> float:
        """Everything that is sent in an epoch."""
        return self.halo_bytes + self.stage_bytes + self.weight_bytes

    @staticmethod
    def of(run: Path, workers: int, warm: int, others: float = 0.0) -> Measured:
        """Read a run folder, without its first ``warm`` epochs."""
        ranks = [_events(run, rank, "epoch")[warm:] for rank in range(workers)]
        together = list(zip(*ranks, strict=True))
        names = sorted({name for epoch in together for event in epoch for name in event["phases"]})
        phases = {
            name: statistics.median(statistics.fmean(e["phases"].get(name, 0.0) for e in epoch) for epoch in together)
            for name in names
        }
        seconds = [max(event["seconds"] for event in epoch) for epoch in together]
        waits = [
            statistics.fmean(sum(e["phases"].get(name, 0.0) for name in WAITING) for e in epoch) for epoch in together
        ]
        return Measured(
            seconds=statistics.median(seconds),
            fastest=min(seconds),
            waiting=statistics.median(waits),
            halo_wait=phases.get("wait", 0.0),
            halo_bytes=statistics.fmean(sum(e["wire_bytes"] - e["stage_bytes"] for e in epoch) for epoch in together),
            stage_bytes=statistics.fmean(sum(e["stage_bytes"] for e in epoch) for epoch in together),
            weight_bytes=statistics.fmean(sum(e["gradient_bytes"] for e in epoch) for epoch in together),
            phases=phases,
            epochs=len(together),
            others=others,
            bubble=_bubble(run),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def _bubble(run: Path) -> float | None:
    """The mean bubble of the workers, where a timeline was recorded."""
    rows = timelines(read_run(run))
    return mean_bubble(rows) if rows else None


def _events(run: Path, rank: int, kind: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (run / f"events-{rank}.jsonl").read_text().splitlines()]
    return [event for event in events if event["event"] == kind]
