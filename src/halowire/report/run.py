"""A run folder read from its files: settings, summary and what every rank wrote down, however incomplete."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Rank:
    """What one worker wrote: its start, its epochs and evaluations by number, its last timeline, its end."""

    rank: int
    start: Json = field(default_factory=dict)
    epochs: dict[int, Json] = field(default_factory=dict)
    evals: dict[int, Json] = field(default_factory=dict)
    end: Json = field(default_factory=dict)
    unreadable: int = 0
    timeline: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A run folder; ``ranks`` ascends and may have gaps, ``summary`` may be empty."""

    folder: Path
    config: Json
    summary: Json
    ranks: tuple[Rank, ...]

    @property
    def first(self) -> Rank:
        """The lowest rank there is: it has the metrics."""
        return self.ranks[0] if self.ranks else Rank(0)

    def epochs(self) -> list[int]:
        """Every epoch that some rank finished, ascending."""
        return sorted({epoch for rank in self.ranks for epoch in rank.epochs})


def read_object(path: Path) -> Json:
    """The JSON object in a file; empty when the file is missing, cut off or something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def read_rank(path: Path, rank: int) -> Rank:
    """One rank's events; an epoch that was repeated after a restart counts as it went the last time."""
    result: dict[str, Json] = {"start": {}, "end": {}, "timeline": {}}
    epochs: dict[int, Json] = {}
    evals: dict[int, Json] = {}
    unreadable = 0
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.strip():
                continue
            try:
                event = json.loads(line)
                kind = event["event"]
                if kind in ("epoch", "eval"):
                    (epochs if kind == "epoch" else evals)[int(event["epoch"])] = event
                elif kind in result:
                    result[kind] = event
            except (ValueError, TypeError, KeyError):
                unreadable += 1
    return Rank(rank, result["start"], epochs, evals, result["end"], unreadable, result["timeline"])


def read_run(folder: Path) -> Run:
    """Read a run folder; InputError when it holds neither events nor a summary."""
    found = sorted(
        (int(match[1]), path)
        for path in (folder.iterdir() if folder.is_dir() else ())
        if (match := re.fullmatch(r"events-(\d+)\.jsonl", path.name))
    )
    summary = read_object(folder / "summary.json")
    if not found and not summary:
        # Imported here: the console and the pages must not wait for torch, which the package of this error loads.
        from halowire.kernels.errors import InputError

        what = "has no events-<rank>.jsonl and no summary.json" if folder.is_dir() else "is not a folder"
        raise InputError(f"{folder} {what}: give the folder that `halowire train --out` wrote")
    ranks = tuple(read_rank(path, rank) for rank, path in found)
    return Run(folder, read_object(folder / "config.json"), summary, ranks)
