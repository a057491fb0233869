"""The event log of one worker: one JSON object per line, appended as things happen."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import IO, Any


class EventLog:
    """Writes ``events-<rank>.jsonl`` in the run folder."""

    def __init__(self, run: Path, rank: int, resume_epoch: int | None = None) -> None:
        """Start a new file, or with ``resume_epoch`` keep the events before that epoch and append."""
        run.mkdir(parents=True, exist_ok=True)
        path = run / f"events-{rank}.jsonl"
        kept = read_events(path) if resume_epoch is not None and path.exists() else []
        kept = [e for e in kept if e["event"] != "end" and e.get("epoch", -1) < (resume_epoch or 0)]
        self._file: IO[str] = path.open("w", encoding="utf-8")
        for event in kept:
            self._write(event)

    def write(self, event: str, **values: Any) -> None:
        """Append one event; it is on disk when this returns, so that a crash loses nothing."""
        self._write({"event": event, **values})

    def close(self) -> None:
        """Close the file; nothing can be written after that."""
        self._file.close()

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(plain(record), separators=(",", ":")) + "\n")
        self._file.flush()


def read_events(path: Path) -> list[dict[str, Any]]:
    """All events of a file; a last line that a crash cut short is left out."""
    events = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            break
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
