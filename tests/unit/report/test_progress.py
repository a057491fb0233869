"""Progress over many runs: a bar that follows the events on a terminal, a line per run elsewhere."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

from halowire.report import Console

SUMMARY = {"test": 0.791, "epoch_seconds": 0.42, "wire_bytes_per_epoch": 12_900_000}


def test_a_line_for_every_run() -> None:
    out = io.StringIO()
    with Console(out=out).runs_progress(3, 10) as progress:
        progress.finish("exact seed 0", SUMMARY, earlier=True)
        for seed in (1, 2):
            progress.start(f"exact seed {seed}", Path("none"))
            progress.finish(f"exact seed {seed}", SUMMARY)
    first, second, third = out.getvalue().splitlines()
    assert first == "[1/3] exact seed 0: test 79.1%, 0.42 s/epoch, 12.3 MiB/epoch, finished before"
    assert "took 0:01" in second and second.endswith("left") and "left" not in third


def test_nothing_when_quiet() -> None:
    out = io.StringIO()
    with Console(quiet=True, out=out).runs_progress(1, 10) as progress:
        progress.start("exact seed 0", Path("none"))
        progress.finish("exact seed 0", SUMMARY)
    assert out.getvalue() == ""


def test_the_bar_follows_the_events_of_the_run(tmp_path: Path, terminal: io.StringIO) -> None:
    with Console(out=terminal).runs_progress(2, 10) as progress:
        progress.start("half seed 0", tmp_path)
        (tmp_path / "events-0.jsonl").write_text(json.dumps({"event": "epoch", "epoch": 3}) + "\n")
        until = time.monotonic() + 20
        while "epoch 4/10" not in terminal.getvalue() and time.monotonic() < until:
            time.sleep(0.05)
        progress.finish("half seed 0", SUMMARY)
    assert "1/2 half seed 0" in terminal.getvalue() and "epoch 4/10" in terminal.getvalue()


def test_a_broken_run_leaves_no_thread_behind(terminal: io.StringIO) -> None:
    progress = Console(out=terminal).runs_progress(1, 10)
    try:
        with progress:
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert not progress._thread.is_alive()
