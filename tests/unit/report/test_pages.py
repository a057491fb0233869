"""The two pages: well formed, self-contained, escaped, and complete, however much of a run or comparison there is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from halowire.errors import InputError
from halowire.report import write_compare_page, write_report
from tests.support.fake_comparison import ALL, write_comparison
from tests.support.fake_run import write_run
from tests.support.pages import comparison_page, runs_page, words_of

FIGURES = (
    "Test accuracy against bytes",
    "Test accuracy against time",
    "Bytes per epoch",
    "Training loss",
    "Time per epoch",
)


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


def test_all_recipes_and_figures_are_there(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    text = comparison_page(tmp_path)
    for title in FIGURES:
        assert f"<h3>{title}</h3>" in text
    for recipe in ALL:
        assert f"what {recipe} does" in text and f"{recipe}-seed2" in text
    said = words_of(text)
    assert "debian, 2 workers, 3 seeds: halowire reaches 78." in said and "1/22 of its halo bytes" in said
    assert "halowire compare debian --recipes exact,half" in said
    colours = re.findall(r'swatch run s(\d)"', text)
    assert len(colours) == len(set(colours)) == len(ALL)


@pytest.mark.parametrize(("recipes", "seeds"), [(("exact",), 1), (("isolated",), 2), (("varco", "bns"), 1)])
def test_few_recipes(tmp_path: Path, recipes: tuple[str, ...], seeds: int) -> None:
    write_comparison(tmp_path, recipes, seeds)
    text = comparison_page(tmp_path)
    assert all(f"<h3>{title}</h3>" in text for title in FIGURES)
    assert "test accuracy" in re.search("<h1>(.*?)</h1>", text)[1]


def test_one_worker_sends_nothing(tmp_path: Path) -> None:
    write_comparison(tmp_path, ("exact", "half"), workers=1)
    assert "Nothing crossed the wire" in comparison_page(tmp_path)


@pytest.mark.parametrize("lacking", [1, 5, 6])
def test_unfinished_comparisons_say_so(tmp_path: Path, lacking: int) -> None:
    write_comparison(tmp_path, ("exact", "halowire"), lacking=lacking)
    assert f"{lacking} run" in comparison_page(tmp_path) and "not finished yet" in comparison_page(tmp_path)


def test_what_the_user_named_is_escaped(tmp_path: Path) -> None:
    record = write_comparison(tmp_path, ("exact",), 1)
    record |= {"graph": "<b>&", "source": "a'b <x>.csv", "notes": ["<i>note"], "settings": {"graph.labels": "<l>"}}
    (tmp_path / "compare.json").write_text(json.dumps(record))
    text = comparison_page(tmp_path)
    assert "&lt;b&gt;&amp;" in text and "<i>note" not in text and "<l>" not in text


def test_no_comparison_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no readable compare\.json"):
        write_compare_page(tmp_path)
    (tmp_path / "compare.json").write_text("{}")
    with pytest.raises(InputError, match=r"no readable compare\.json"):
        write_compare_page(tmp_path)
