"""What the files of a run folder hold, however incomplete: its settings, its summary, the events of every rank."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from halowire.errors import InputError

Json = dict[str, Any]

TAIL = 16384
"""Bytes at the end of an events file in which its newest epoch is looked for."""


@dataclass(frozen=True)
class RankEvents:
    """The events of one worker: its start, its epochs and evaluations by number, its last timeline, its end."""

    rank: int
    start: Json = field(default_factory=dict)
    epochs: dict[int, Json] = field(default_factory=dict)
    evals: dict[int, Json] = field(default_factory=dict)
    end: Json = field(default_factory=dict)
    unreadable: int = 0
    timeline: Json = field(default_factory=dict)


@dataclass(frozen=True)
class RunFiles:
    """The content of a run folder; ``ranks`` is in ascending order and may have gaps, ``summary`` may be empty."""

    folder: Path
    config: Json
    summary: Json
    ranks: tuple[RankEvents, ...]

    @property
    def first(self) -> RankEvents:
        """The events of the lowest rank there is, which has the metrics."""
        return self.ranks[0] if self.ranks else RankEvents(0)

    def epochs(self) -> list[int]:
        """Every epoch that some rank finished, in ascending order."""
        return sorted({epoch for rank in self.ranks for epoch in rank.epochs})


def read_object(path: Path) -> Json:
    """The JSON object in a file; empty when the file is missing, cut off or something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def read_rank(path: Path, rank: int) -> RankEvents:
    """One rank's events; of an epoch that was repeated after a restart, the last one counts."""
    single: dict[str, Json] = {"start": {}, "end": {}, "timeline": {}}
    by_epoch: dict[str, dict[int, Json]] = {"epoch": {}, "eval": {}}
    unreadable = 0
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.strip():
                continue
            try:
                event = json.loads(line)
                kind = event["event"]
                if kind in by_epoch:
                    by_epoch[kind][int(event["epoch"])] = event
                elif kind in single:
                    single[kind] = event
            except (ValueError, TypeError, KeyError):
                unreadable += 1
    return RankEvents(rank, epochs=by_epoch["epoch"], evals=by_epoch["eval"], unreadable=unreadable, **single)


def read_run(folder: Path) -> RunFiles:
    """Read a run folder; it is refused when it holds neither events nor a summary."""
    found = sorted(
        (int(match[1]), path)
        for path in (folder.iterdir() if folder.is_dir() else ())
        if (match := re.fullmatch(r"events-(\d+)\.jsonl", path.name))
    )
    summary = read_object(folder / "summary.json")
    if not found and not summary:
        what = "has no events-<rank>.jsonl and no summary.json" if folder.is_dir() else "is not a folder"
        raise InputError(f"{folder} {what}: give the folder that `halowire train --out` wrote")
    ranks = tuple(read_rank(path, rank) for rank, path in found)
    return RunFiles(folder, read_object(folder / "config.json"), summary, ranks)


def last_epoch(path: Path) -> int | None:
    """The newest epoch in a file of events that is being written; None before the first one is done."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        try:
            return int(json.loads(line)["epoch"])
        except (ValueError, KeyError, TypeError):
            continue
    return None
