"""The page: well formed, self-contained, escaped, and complete for every kind of run."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from fake_run import write_run

from halowire.kernels.errors import InputError
from halowire.report import write_report
from halowire.report.line_chart import MOST_POINTS, Chart, Curve, line_chart, spread, thinned
from halowire.report.markup import join, tag
from halowire.report.units import number_text

VOID = {"meta"}


class Balance(HTMLParser):
    """Checks that every element is closed where it was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"


def page(folders: list[Path], out: Path) -> str:
    """The report's text, checked to be balanced and to ask for nothing from elsewhere."""
    text = write_report(folders, out).read_text(encoding="utf-8")
    balance = Balance()
    balance.feed(text)
    assert not balance.open
    assert not {"script", "link", "img", "iframe", "object"} & set(balance.seen)
    assert not re.search(r"https?:|url\(|@import|src=|href=", text)
    assert "nan" not in re.findall(r"[a-z]+", re.sub(r"<style>.*?</style>", "", text.lower(), flags=re.S))
    for drawing in re.findall(r"<svg .*?</svg>(?=</div>)", text, flags=re.S):
        ET.fromstring(drawing)
    return text


def test_one_run(run: Path, tmp_path: Path) -> None:
    text = page([run], run / "report.html")
    plain = re.sub(r"<[^>]+>", "", text)
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
    text = page(runs, tmp_path / "all.html")
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
    text = page(runs, tmp_path / "all.html")
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
    text = page([run], run / "report.html")
    assert "<script" not in text and "&lt;script&gt;" in text


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_short_runs(tmp_path: Path, epochs: int) -> None:
    text = page([write_run(tmp_path / "short", epochs=epochs)], tmp_path / "report.html")
    assert text.count("<figure") == 6
    assert ("which warms up" in text) == (epochs > 2)


def test_one_worker_has_nothing_on_the_wire(tmp_path: Path) -> None:
    text = page([write_run(tmp_path / "one", workers=1)], tmp_path / "report.html")
    assert "nothing on the wire" in text and "Nothing crossed the wire" in text and "What was exchanged" not in text


def test_a_summary_alone_is_enough(run: Path) -> None:
    for path in (*run.glob("events-*"), run / "config.json"):
        path.unlink()
    text = page([run], run / "report.html")
    assert "No epoch was recorded" in text and "78.1%" in text


def test_a_start_alone_is_enough(run: Path) -> None:
    (run / "summary.json").unlink()
    for path in run.glob("events-*"):
        path.write_text(path.read_text().splitlines()[0] + "\n")
    assert "broke off after 0 of 60 epochs" in page([run], run / "report.html")


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
    page([run], run / "report.html")


def test_a_learning_rate_that_changes_is_drawn(run: Path) -> None:
    events = [json.loads(line) for line in (run / "events-0.jsonl").read_text().splitlines()]
    changed = [{**e, "lr": 0.01 / (1 + e["epoch"])} if e["event"] == "epoch" else e for e in events]
    (run / "events-0.jsonl").write_text("".join(json.dumps(event) + "\n" for event in changed))
    assert "<h3>Learning rate</h3>" in page([run], run / "report.html")


def test_the_error_of_the_code_is_drawn_by_layer_and_direction(tmp_path: Path) -> None:
    run = write_run(tmp_path / "coded", "sylvie-s", epochs=21)
    text = page([run], tmp_path / "report.html")
    assert text.count("<figure") == 8
    for way, size in (("forward", 1.0), ("backward", 20.0)):
        figure = re.search(rf"<figure><figcaption><h3>Error of the code, {way}</h3>.*?</figure>", text, re.S)
        assert figure and figure[0].count('class="line s') == 2
        rows = re.findall(r'<tr><th scope="row">(\d+)</th><td>([^<]*)</td><td>([^<]*)</td></tr>', figure[0])
        mean = [3.1 * 0.97**epoch * 1.05 / size for epoch in (0, 10, 20)]
        expected = [(str(10 * n), number_text(value), number_text(value / 2)) for n, value in enumerate(mean)]
        assert rows == expected


def test_rows_that_travel_as_they_are_have_no_error(run: Path) -> None:
    assert "Error of the code" not in page([run], run / "report.html")


def overlap_of(text: str) -> str:
    found = re.search(r"<h2>Overlap</h2>(.*?)<h2", text, re.S)
    return re.sub(r"<[^>]+>", " ", found[1]) if found else ""


def test_the_page_says_how_the_wire_was_hidden(run: Path, tmp_path: Path) -> None:
    said = overlap_of(page([run], run / "report.html"))
    assert "Layers 1 and 2 boundary first: the rows that other workers need" in said
    assert "85.0% of a worker's rows have nothing to do with other workers" in said and "80.0% on the worker" in said
    assert "plain overlap" not in said and "late" not in said
    alone = write_run(tmp_path / "alone", workers=1)
    assert "<h2>Overlap" not in page([alone], tmp_path / "alone.html")


def test_the_page_says_where_the_wire_was_not_hidden_well_and_why(run: Path, tmp_path: Path) -> None:
    events = (run / "events-0.jsonl").read_text()
    ways = {"1": "boundary first", "2": "plain overlap: <batch> norm", "3": "plain overlap: <batch> norm"}
    old = json.dumps({"1": "boundary first", "2": "boundary first"})
    assert old in events
    (run / "events-0.jsonl").write_text(events.replace(old, json.dumps(ways)))
    settings = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(settings | {"freshness": {"mode": "delayed"}}))
    said = overlap_of(page([run], run / "report.html"))
    assert "Layer 1 boundary first: " in said
    assert "Layers 2 and 3 plain overlap, &lt;batch&gt; norm: a layer sends its rows when all of them are there" in said
    assert "Rows are used one epoch late" in said
    both = overlap_of(page([run, write_run(tmp_path / "varco", "varco")], tmp_path / "both.html"))
    assert "layer 1 boundary first; layers 2 and 3 plain overlap, &lt;batch&gt; norm; rows are used" in both
    assert "layers 1 and 2 boundary first" in both


def test_what_is_known_of_a_foreign_model_in_the_end_is_told(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    layers = {"first": {"kind": "SAGEConv", "path": "native", "reason": ""}}
    ways = {"first": "plain overlap: foreign model", "second": "not hidden: attention takes all rows at once"}
    summary |= {"layer_paths": layers, "overlap": ways, "rows_as_they_are": True}
    assert "halo rows per epoch at 1 bit" in page([run], run / "report.html")
    summary["partition"]["bytes_per_epoch"] = {"32": 0, "1": 0}
    (run / "summary.json").write_text(json.dumps(summary))
    text = page([run], run / "report.html")
    said = overlap_of(text)
    assert "Layer first plain overlap, foreign model: a layer sends its rows" in said
    assert "Layer second not hidden, attention takes all rows at once: nothing is computed while its rows fly." in said
    assert "coded as they are, not as changes" in text
    assert "halo rows per epoch at" not in text, "unknown is not nothing"


def test_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run folder"):
        write_report([], tmp_path / "report.html")


def test_labels_are_spread_without_leaving_the_plot() -> None:
    placed = spread([10.0, 11.0, 12.0, 180.0, 181.0], 182.0, 16.0)
    gaps = [after - before for before, after in pairwise(placed)]
    assert min(gaps) >= 16 and max(placed) <= 182 and placed == sorted(placed)


def test_thinning_keeps_the_peaks() -> None:
    points = [(epoch, 100.0 if epoch == 7777 else math.sin(epoch)) for epoch in range(20_000)]
    kept = thinned(points)
    assert len(kept) <= MOST_POINTS and (7777, 100.0) in kept and kept == sorted(kept)


def test_a_curve_breaks_where_values_are_missing() -> None:
    points = [(0, 1.0), (1, 2.0), (2, math.nan), (3, 2.0), (4, math.nan), (5, 1.0), (6, 1.5)]
    drawing = line_chart(Chart("x", [Curve("x", points, 0, area=True)], "number"), "y")
    line = re.search(r'd="([^"]*)" class="line', drawing)
    assert line and line[1].count("M") == 3


def test_markup_escapes_all_but_markup() -> None:
    assert (
        tag("a", "<", tag("b", "&"), title='"<', class_="x", hidden=None)
        == '<a title="&quot;&lt;" class="x">&lt;<b>&amp;</b></a>'
    )
    assert join("<", None, 3) == "&lt;3"


def test_the_layers_of_a_model_of_ones_own(run: Path, tmp_path: Path) -> None:
    assert "<h2>Layers</h2>" not in page([run], tmp_path / "without.html")
    summary = json.loads((run / "summary.json").read_text())
    summary["layer_paths"] = {
        "first": {"kind": "GCNConv", "path": "native", "reason": ""},
        "second": {"kind": "GATConv", "path": "general", "reason": "dropout of attention while training"},
    }
    (run / "summary.json").write_text(json.dumps(summary))
    text = page([run], tmp_path / "with.html")
    assert "<h2>Layers</h2>" in text and "serve 1 of 2 layers" in text and "torch stands in" not in text
    assert "<td>GATConv</td><td>general</td><td>dropout of attention while training</td>" in text
    summary["kernels"] = "torch"
    (run / "summary.json").write_text(json.dumps(summary))
    assert "torch stands in" in page([run], tmp_path / "twins.html")


def test_a_run_of_fit_is_repeated_by_a_call(run: Path, tmp_path: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    config["run"] |= {"own_model": True}
    (run / "config.json").write_text(json.dumps(config))
    text = re.sub(r"<[^>]+>", "", page([run], tmp_path / "page.html")).replace("&#x27;", "'").replace("&#39;", "'")
    assert "halowire.fit(model, data, workers=2, recipe='exact', settings={" in text
    assert "'optim.lr': 0.01," in text and "'model.hidden'" not in text and "halowire train" not in text
