"""Seconds of an epoch on links of several speeds: every row, what is chosen, and everything that saves, by turns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from bench.bytes.cuts import Cuts
from bench.bytes.ways import ALL, CHOSEN, LAYERS, PLAIN, WAYS
from bench.netlab import Lab
from bench.timing.session import Session

WORKER = "bench.bytes.worker"
NO_LIMIT = "none"
RATES = {1: (NO_LIMIT,), 2: (NO_LIMIT,), 4: (NO_LIMIT, "1gbit", "100mbit")}
"""The rates of the links, by the number of workers, which are hosts with a core each (four share two cores)."""
SPEEDS = {NO_LIMIT: 8000.0, "1gbit": 1000.0, "100mbit": 100.0}
"""What `--wire.link` is told of each, in Mbit/s."""
TURNS, EPOCHS, WARM = 3, 4, 2


class Keeper(Protocol):
    """Where results are kept."""

    def lacks(self, step: str, key: str) -> bool:
        """Whether ``key`` of ``step`` is to be measured."""

    def get(self, step: str, key: str, measure: Callable[[], Any]) -> Any:
        """The result ``key`` of ``step``, measured now unless it is there."""


def measure_times(name: str, cuts: Cuts, results: Keeper) -> None:
    """All times of one graph, three layers; a result has the median epochs of every turn by the name of the way."""
    for workers, rates in RATES.items():
        labels = [PLAIN, CHOSEN] if workers < max(RATES) else [PLAIN, CHOSEN, ALL]
        missing = [rate for rate in rates if results.lacks("times", f"{name} {workers} {rate}")]
        if missing:
            folders = {label: cuts.folder(workers, WAYS[label].method).absolute() for label in labels}
            with (
                Lab(workers, None) as lab,
                Session(lab, "bench.bytes.worker", {}, Path("runs/bytes/session")) as session,
            ):
                for rate in missing:
                    lab.set_rate(None if rate == NO_LIMIT else rate)
                    results.get("times", f"{name} {workers} {rate}", partial(_turns, session, folders, rate))


def _turns(session: Session, folders: dict[str, Path], rate: str) -> dict[str, Any]:
    """The median seconds of an epoch in every turn, and the share of the cores that other programs used at most."""
    found: dict[str, Any] = {label: [] for label in folders}
    used = 0.0
    for _ in range(TURNS):
        for label, folder in folders.items():
            settings = {"model.layers": LAYERS[0], "threads": 1} | WAYS[label].settings
            if label == CHOSEN:
                settings["wire.link"] = SPEEDS[rate]
            took = session.timed(EPOCHS, WARM, settings, shards=str(folder))
            found[label].append(took.seconds)
            used = max(used, took.others)
    return found | {"others": used}
