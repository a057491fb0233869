"""The page of runs: headline, table, figures; of one run and several, of runs that are damaged or broke off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from halowire.errors import InputError
from halowire.report import read_run, write_report
from halowire.report.facts import ShownRun, shown_runs
from halowire.report.sections.runs_page import headline, subtitle, when_and_how_it_ended
from tests.support.fake_run import write_run
from tests.support.pages import runs_page, words_of


def test_one_run(run: Path, tmp_path: Path) -> None:
    text = runs_page([run], run / "report.html")
    plain = words_of(text)
    assert "debian, 2 workers, exact: 78.1% test accuracy, 0.42 s per epoch, 12.3 MiB on the wire per epoch" in plain
    for words in ("Training loss", "Time per epoch", "Bytes on the wire", "Where the time went", "What was exchanged"):
        assert f"<h3>{words}</h3>" in text
    for words in ("Who owns what", "Settings", "Run it again", "epoch 0: 2.26 s (off the scale)", "best: epoch 49"):
        assert words in text
    figures = text.count("<figure")
    assert figures == 6
    assert text.count("<desc>") == figures and text.count("<summary>Data</summary>") == figures
    assert [path.name for path in run.iterdir() if path.name.endswith(".tmp")] == []


def test_a_folder_as_target_gets_report_html(run: Path, tmp_path: Path) -> None:
    assert write_report([run], tmp_path) == tmp_path / "report.html"


def test_several_runs_share_figures_and_a_table(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / recipe, recipe) for recipe in ("exact", "sylvie-s", "varco")]
    text = runs_page(runs, tmp_path / "all.html")
    assert text.count("<figure") == 7
    assert text.count('class="line s') == 4 * 3 + 2 * 2, "exact has no error of a code"
    assert 'class="best">547 KiB' in text
    assert "rate.bits" in text and "settings that all runs share" in text


def test_runs_that_differ_in_their_seed_share_colour_and_label(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / f"{recipe}{seed}", recipe, seed=seed, epochs=20)
        for recipe in ("exact", "varco")
        for seed in (0, 1)
    ]
    text = runs_page(runs, tmp_path / "all.html")
    assert "exact ×2" in text and "varco ×2" in text and "line s2" not in text


def test_everything_from_the_files_is_escaped(run: Path) -> None:
    evil = "<script>alert(1)</script>\"'&"
    for name in ("summary.json", "config.json"):
        values = json.loads((run / name).read_text())
        values.update(graph=evil, recipe=evil, model=evil, kernels=evil, status=evil, metric=evil)
        values["partition"] = {"method": evil, "warnings": [evil], evil: evil}
        (run / name).write_text(json.dumps(values))
    lines = (run / "events-0.jsonl").read_text().replace("forward", "<script>").replace('"debian"', json.dumps(evil))
    (run / "events-0.jsonl").write_text(lines)
    text = runs_page([run], run / "report.html")
    assert "<script" not in text and "&lt;script&gt;" in text


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_short_runs(tmp_path: Path, epochs: int) -> None:
    text = runs_page([write_run(tmp_path / "short", epochs=epochs)], tmp_path / "report.html")
    assert text.count("<figure") == 6
    assert ("which warms up" in text) == (epochs > 2)


def test_one_worker_has_nothing_on_the_wire(tmp_path: Path) -> None:
    text = runs_page([write_run(tmp_path / "one", workers=1)], tmp_path / "report.html")
    assert "nothing on the wire" in text and "Nothing crossed the wire" in text and "What was exchanged" not in text


def test_a_summary_alone_is_enough(run: Path) -> None:
    for path in (*run.glob("events-*"), run / "config.json"):
        path.unlink()
    text = runs_page([run], run / "report.html")
    assert "No epoch was recorded" in text and "78.1%" in text


def test_a_start_alone_is_enough(run: Path) -> None:
    (run / "summary.json").unlink()
    for path in run.glob("events-*"):
        path.write_text(path.read_text().splitlines()[0] + "\n")
    assert "broke off after 0 of 60 epochs" in runs_page([run], run / "report.html")


def test_strange_values_do_not_break_the_page(run: Path) -> None:
    event = {
        "event": "epoch",
        "epoch": 60,
        "loss": "x",
        "seconds": None,
        "phases": 3,
        "wire_bytes": [],
        "exchanges": [1],
    }
    lines = (run / "events-0.jsonl").read_text().splitlines()
    start = json.loads(lines[0]) | {"overlap": [3], "interior_share": "x"}
    (run / "events-0.jsonl").write_text("\n".join([json.dumps(start), *lines[1:]]) + "\n")
    with (run / "events-0.jsonl").open("a") as file:
        file.write(json.dumps(event) + "\n[]\n3\n" + json.dumps({"event": "eval", "epoch": 60, "val": None}) + "\n")
    (run / "config.json").write_text("[1, 2")
    (run / "summary.json").write_text(json.dumps({"partition": 3, "workers": "two", "mesh": None, "best_epoch": "x"}))
    runs_page([run], run / "report.html")


def test_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run folder"):
        write_report([], tmp_path / "report.html")


def shown(*folders: Path) -> list[ShownRun]:
    return shown_runs([read_run(folder) for folder in folders])


def test_the_headline_of_several_runs_has_ranges(tmp_path: Path) -> None:
    runs = shown(*(write_run(tmp_path / recipe, recipe) for recipe in ("exact", "sylvie-s")))
    said = "2 runs on debian: 77.6% to 78.1% test accuracy, 0.31 s to 0.42 s per epoch, 547 KiB to 12.3 MiB on the wire"
    assert words_of(headline(runs)) == f"{said} per epoch"


def test_what_is_unknown_is_not_in_the_headline(run: Path) -> None:
    (run / "summary.json").unlink()
    (run / "events-0.jsonl").write_text((run / "events-0.jsonl").read_text().splitlines()[0] + "\n")
    (run / "events-1.jsonl").unlink()
    assert headline(shown(run)) == "debian, 2 workers, exact"


def test_how_a_run_ended(run: Path) -> None:
    one = shown(run)[0]
    assert when_and_how_it_ended(one) == "2026-09-21 14:13 UTC, took 34.0 s, finished"
    assert subtitle(one).startswith("63,620 nodes, 564,218 edges, 1,000 features, 31 classes, model sage, seed 0")
    summary = json.loads((run / "summary.json").read_text()) | {"status": "early-stopped"}
    (run / "summary.json").write_text(json.dumps(summary))
    assert when_and_how_it_ended(shown(run)[0]).endswith("stopped early (--early-stop)")
