"""Run folders of a pipeline, made up: equal chunks through equal stages, so that every number can be checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.fake_run import write_run

WORK, LATE = 0.01, 0.002
"""Seconds of a chunk in a stage each way, and of them waiting for halo rows."""


def spans(stage: int, stages: int, chunks: int, parts: int) -> list[list[Any]]:
    """The timeline of one worker: all chunks forward, then all backward, one step of the clock each."""
    found: list[list[Any]] = []
    for turn, kind in enumerate(("forward", "backward")):
        begin = turn * (chunks + stages - 1) * WORK
        behind = stage if kind == "forward" else stages - 1 - stage
        if behind:
            found.append(["wait", 0 if kind == "forward" else chunks - 1, -1, begin, begin + behind * WORK])
        order = range(chunks) if kind == "forward" else reversed(range(chunks))
        for place, chunk in enumerate(order):
            start = begin + (behind + place) * WORK
            if parts > 1:
                found.append(["exchange", chunk, 1, start + LATE, start + 2 * LATE])
            found.append([kind, chunk, -1, start, start + 0.9 * WORK])
            found.append(["transfer", chunk, -1, start + 0.9 * WORK, start + WORK])
    return found


def write_pipeline(folder: Path, stages: int = 2, parts: int = 1, chunks: int = 8, layers: int = 4) -> Path:
    """A run of ``stages`` x ``parts`` workers: that of :func:`write_run` with timelines, links and ``layers``."""
    write_run(folder, workers=stages * parts)
    ideal = (stages - 1) / (chunks + stages - 1)
    for rank in range(stages * parts):
        stage, part = divmod(rank, parts)
        path = folder / f"events-{rank}.jsonl"
        events = [json.loads(line) for line in path.read_text().splitlines()]
        for event in events:
            if event["event"] == "epoch":
                ways = ("forward", "backward") if parts > 1 else ()
                halos = [{"layer": n, "direction": way, "bytes": 1000, "wait": 0.001} for way in ways
                         for n in range(1, layers + 1)]  # fmt: skip
                links = [{"layer": 3, "direction": f"stage {way}", "bytes": 5000, "wait": 0.001}
                         for way in ("forward", "backward")]  # fmt: skip
                if event["epoch"] % 10 == 0:
                    links = [link | {"error": 0.25} for link in links]
                event |= {"exchanges": halos + links, "wire_bytes": 1000 * len(halos) + 10_000, "stage_bytes": 10_000}
        timeline = {
            "event": "timeline", "epoch": 2, "stage": stage, "part": part, "ideal_bubble": ideal,
            "layers": [4 * stage + 1, 4 * stage + 4], "spans": spans(stage, stages, chunks, parts),
        }  # fmt: skip
        path.write_text("".join(json.dumps(event) + "\n" for event in [*events[:4], timeline, *events[4:]]))
    return folder
