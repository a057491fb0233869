"""The console: a bar on a terminal, lines in a log, the essentials when quiet."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from halowire.report import Console
from tests.support.fake_run import summary


def train(console: Console, epochs: int = 30) -> None:
    """What training tells the console."""
    with console.progress(epochs, "debian exact") as progress:
        for epoch in range(epochs):
            progress.epoch(epoch, 2.5 / (epoch + 1), seconds=0.42, wire_bytes=12_900_000)
            if (epoch + 1) % 10 == 0:
                progress.evaluated(epoch, {"train": 0.8, "val": 0.7912, "test": 0.79})


def test_a_log_gets_a_line_per_evaluation() -> None:
    out = io.StringIO()
    console = Console(out=out)
    console.line("2 workers [bold]as they are[/bold] :smile:")
    train(console)
    lines = out.getvalue().splitlines()
    assert lines[0] == "2 workers [bold]as they are[/bold] :smile:"
    assert len(lines) == 4
    assert lines[1].startswith("debian exact epoch 10/30, loss 0.2500, val 79.1%, 0.42 s/epoch, 12.3 MiB/epoch, ")
    assert lines[1].endswith(" left") and not lines[3].endswith(" left")
    assert "\x1b" not in out.getvalue()


def test_colour_variables_do_not_bring_a_bar_into_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = io.StringIO()
    train(Console(out=out))
    assert "\x1b" not in out.getvalue()


def test_quiet_prints_the_essentials_only() -> None:
    out, err = io.StringIO(), io.StringIO()
    console = Console(quiet=True, out=out, err=err)
    console.line("news")
    train(console)
    assert out.getvalue() == ""
    console.warn("beware")
    assert err.getvalue() == "warning: beware\n"
    console.summary_table(summary("exact", 2, 60, 0), Path("runs/demo/report.html"))
    assert "78.1%" in out.getvalue() and "runs/demo/report.html" in out.getvalue()


@pytest.mark.parametrize("width", ["60", "80", "140"])
def test_a_terminal_gets_a_bar_on_one_line(monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO, width: str) -> None:
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setenv("TERM", "xterm-256color")
    console = Console(out=terminal)
    with console.progress(3, "debian exact") as progress:
        for epoch in range(3):
            progress.epoch(epoch, 1.0, seconds=0.42, wire_bytes=12_900_000)
            progress.evaluated(epoch, {"val": 0.5})
        console.line("a line above the bar")
        console.warn("a warning above the bar")
    text = terminal.getvalue()
    assert "3/3" in text and "a line above the bar" in text and "a warning above the bar" in text
    assert ("debian exact" in text) == (width == "140")
    if width != "60":
        assert "val 50.0%" in text and "12.3 MiB/epoch" in text


def test_the_table_names_everything_and_keeps_the_path_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = io.StringIO()
    path = "runs/" + "long/" * 30 + "report.html"
    Console(out=out).summary_table(summary("exact", 2, 60, 0), path)
    lines = dict(line.split("  ", 1) for line in out.getvalue().splitlines())
    values = {name: value.strip() for name, value in lines.items()}
    assert values["test accuracy"] == "78.1% (validation 78.4% after epoch 50)"
    assert values["time per epoch"] == "0.42 s"
    assert values["waiting for the wire"] == "16.0% (67.2 ms of an epoch)"
    assert values["wire per epoch"] == "12.3 MiB"
    assert values["weight gradients per epoch"] == "2.50 MiB"
    assert values["peak memory"] == "401 MiB (largest worker)"
    assert values["report"] == path


def test_a_run_without_results_still_has_a_table() -> None:
    out = io.StringIO()
    Console(out=out).summary_table({"status": "stopped", "epochs": 3, "best_epoch": -1})
    assert "stopped after 3 epochs" in out.getvalue() and "– (validation –)" in out.getvalue()


def test_a_failing_epoch_takes_the_bar_away_and_gets_through(terminal: io.StringIO) -> None:
    with pytest.raises(RuntimeError, match="boom"), Console(out=terminal).progress(3, "x"):
        raise RuntimeError("boom")
