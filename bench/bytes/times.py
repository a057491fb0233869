"""Seconds of an epoch on links of some speeds, the ways by turns; every row twice in a turn, for the noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from bench.bytes.cuts import Cuts
from bench.bytes.ways import AGAIN, ALL, CHOSEN, HOME_AND_SUMS, LAYERS, PLAIN, WAYS
from bench.netlab import Lab
from bench.timing.session import Session

WORKER = "bench.bytes.worker"
NO_LIMIT = "none"
RATES = {1: (NO_LIMIT,), 2: (NO_LIMIT,), 4: (NO_LIMIT, "1gbit", "100mbit")}
"""The rates of the links, by the number of workers, which are hosts with a core each (four share two cores)."""
SPEEDS = {NO_LIMIT: 8000.0, "1gbit": 1000.0, "100mbit": 100.0}
"""What `--wire.link` is told of each, in Mbit/s."""
WARM = 2


@dataclass(frozen=True)
class Length:
    """How much is measured: the median of ``epochs`` in every one of ``turns``, in which all ways have theirs."""

    turns: int = 3
    epochs: int = 4


class Keeper(Protocol):
    """Where results are kept."""

    def lacks(self, step: str, key: str) -> bool:
        """Whether ``key`` of ``step`` is to be measured."""

    def get(self, step: str, key: str, measure: Callable[[], Any]) -> Any:
        """The result ``key`` of ``step``, measured now unless it is there."""


def labels_for(workers: int) -> list[str]:
    """The ways in the order of a turn; one worker sends nothing, and only the most have a cut by another method."""
    more = [HOME_AND_SUMS] if workers > 1 else []
    return [PLAIN, CHOSEN, *more, *([ALL] if workers == max(RATES) else []), AGAIN]


def measure_times(name: str, cuts: Cuts, results: Keeper, length: Length) -> None:
    """All times of one graph, three layers; a result has the median epochs of every turn by the name of the way."""
    for workers, rates in RATES.items():
        missing = [rate for rate in rates if results.lacks("times", f"{name} {workers} {rate}")]
        if missing:
            ways = {label: WAYS[PLAIN if label == AGAIN else label] for label in labels_for(workers)}
            folders = {label: cuts.folder(workers, way.method).absolute() for label, way in ways.items()}
            with (
                Lab(workers, None) as lab,
                Session(lab, "bench.bytes.worker", {}, Path("runs/bytes/session")) as session,
            ):
                for rate in missing:
                    lab.set_rate(None if rate == NO_LIMIT else rate)
                    measure = partial(measure_turns, session, folders, rate, length)
                    results.get("times", f"{name} {workers} {rate}", measure)


def measure_turns(session: Session, folders: dict[str, Path], rate: str, length: Length) -> dict[str, Any]:
    """The median seconds of an epoch in every turn, and the share of the cores that other programs used at most."""
    found: dict[str, Any] = {label: [] for label in folders}
    used = 0.0
    for _ in range(length.turns):
        for label, folder in folders.items():
            way = WAYS[PLAIN if label == AGAIN else label]
            settings = {"model.layers": LAYERS[0], "threads": 1} | way.settings
            if label == CHOSEN:
                settings["wire.link"] = SPEEDS[rate]
            took = session.timed(length.epochs, WARM, settings, shards=str(folder))
            found[label].append(took.seconds)
            used = max(used, took.others)
    return found | {"others": used, "epochs": length.epochs}
