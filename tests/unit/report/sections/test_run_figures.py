"""The figures of runs: the error of the code, the learning rate, bytes between stages, exchanges by direction."""

from __future__ import annotations

import json
import re
from pathlib import Path

from halowire.report.units import number_text
from tests.support.fake_pipeline import write_pipeline
from tests.support.fake_run import write_run
from tests.support.pages import runs_page, words_of


def test_a_learning_rate_that_changes_is_drawn(run: Path) -> None:
    events = [json.loads(line) for line in (run / "events-0.jsonl").read_text().splitlines()]
    changed = [{**e, "lr": 0.01 / (1 + e["epoch"])} if e["event"] == "epoch" else e for e in events]
    (run / "events-0.jsonl").write_text("".join(json.dumps(event) + "\n" for event in changed))
    assert "<h3>Learning rate</h3>" in runs_page([run], run / "report.html")


def test_the_error_of_the_code_is_drawn_by_layer_and_direction(tmp_path: Path) -> None:
    run = write_run(tmp_path / "coded", "sylvie-s", epochs=21)
    text = runs_page([run], tmp_path / "report.html")
    assert text.count("<figure") == 8
    for way, size in (("forward", 1.0), ("backward", 20.0)):
        figure = re.search(rf"<figure><figcaption><h3>Coding error, {way}</h3>.*?</figure>", text, re.S)
        assert figure and figure[0].count('class="line s') == 2
        rows = re.findall(r'<tr><th scope="row">(\d+)</th><td>([^<]*)</td><td>([^<]*)</td></tr>', figure[0])
        mean = [3.1 * 0.97**epoch * 1.05 / size for epoch in (0, 10, 20)]
        expected = [(str(10 * n), number_text(value), number_text(value / 2)) for n, value in enumerate(mean)]
        assert rows == expected


def test_rows_that_travel_as_they_are_have_no_error(run: Path) -> None:
    assert "Coding error" not in runs_page([run], run / "report.html")


def test_stage_bytes_and_errors_are_drawn_apart(tmp_path: Path) -> None:
    text = runs_page([write_pipeline(tmp_path / "run", parts=2)], tmp_path / "report.html")
    for name in ("stage forward", "stage backward"):
        assert f"<h3>Coding error, {name}</h3>" in text
    assert "rows between stages over their squared norm" in text
    wire = re.search(r"<h3>Bytes on the wire</h3>.*?</figure>", text, re.S)
    assert wire and "<td>31.2 KiB</td><td>39.1 KiB</td>" in wire[0], "8 halo messages and 2 links of 4 workers"
    assert "layer 4, backward" in text


def test_many_exchanges_are_summed_by_direction(tmp_path: Path) -> None:
    text = runs_page([write_pipeline(tmp_path / "run", parts=2, layers=32)], tmp_path / "report.html")
    drawn = re.search(r"<h3>What was exchanged</h3>(.*?)<details>", text, re.S)
    assert drawn and "32 layers, forward" in drawn[1] and "1 layer, stage backward" in drawn[1]
    assert "125 KiB, waited 32.0 ms" in words_of(drawn[1]) and "layer 7" not in drawn[1]
    assert "layer 7, backward" in text
