"""The event log of one worker: one JSON object per line, appended as things happen.

Events are a record, not the result. Where the disk is full, training goes on without them: a warning says so once, and
once there is room again an event ``gap`` says how many are missing. A run whose folder was deleted ends at once.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from halowire.errors import TrainingError, system_error
from halowire.files import written_to, written_whole
from halowire.inputs import read_lines


class EventLog:
    """Writes ``events-<rank>.jsonl`` in the run folder."""

    def __init__(self, run: Path, rank: int, resume_epoch: int | None = None) -> None:
        """Start a new file, or with ``resume_epoch`` keep the events before that epoch and append."""
        self._run = run
        self._rank = rank
        self._missing = 0
        path = run / f"events-{rank}.jsonl"
        kept = read_events(path) if resume_epoch is not None and path.exists() else []
        kept = [event for event in kept if event["event"] != "end" and _epoch(event) < (resume_epoch or 0)]
        with written_to(run):
            run.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as temporary:
            temporary.write_bytes(b"".join(map(_line, kept)))
        with written_to(run):
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._size = os.fstat(self._file).st_size

    def write(self, event: str, **values: Any) -> None:
        """Append one event; it is with the system when this returns, so that a crash of the worker loses nothing."""
        if os.fstat(self._file).st_nlink == 0:
            raise TrainingError(
                f"the events of rank {self._rank} in {self._run} were deleted while the run wrote them; start it "
                "again, and leave its folder alone while it runs"
            )
        lines = _line({"event": event, **values})
        if self._missing:
            lines = _line({"event": "gap", "missing": self._missing}) + lines
        try:
            with written_to(self._run, len(lines)):
                self._append(lines)
        except OSError as error:
            self._warn(error)
        else:
            self._missing = 0

    def close(self) -> None:
        """Close the file; nothing can be written after that."""
        os.close(self._file)

    def _append(self, lines: bytes) -> None:
        """Append whole lines; where they do not fit, the file ends with the last whole line before them."""
        try:
            left = lines
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(lines)

    def _warn(self, error: OSError) -> None:
        if not self._missing:
            words = f"rank {self._rank} trains on without writing events: {system_error(error)}"
            print(f"warning: {words}", file=sys.stderr, flush=True)
        self._missing += 1


def read_events(path: Path) -> list[dict[str, Any]]:
    """All events of a file; a line that is no event, such as one that a crash cut short, is left out."""
    events = []
    for line in read_lines(path):
        try:
            event = json.loads(line.decode("utf-8", errors="replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            events.append(event)
    return events


def plain(value: Any) -> Any:
    """``value`` as JSON can hold it: NaN and infinity, which JSON does not know, become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _line(event: dict[str, Any]) -> bytes:
    return (json.dumps(plain(event), separators=(",", ":")) + "\n").encode()


def _epoch(event: dict[str, Any]) -> float:
    """The epoch of an event; -1 for one without."""
    found = event.get("epoch")
    return found if isinstance(found, int | float) else -1
