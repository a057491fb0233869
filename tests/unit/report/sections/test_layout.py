"""How the work was laid out: the cut, the workers, the pipeline, how the wire was hidden, who served a layer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from halowire.report.sections.layout import MOST_LINES
from tests.support.fake_pipeline import LATE, WORK, write_pipeline
from tests.support.fake_run import write_run
from tests.support.pages import runs_page, section, words_of


def owned(run: Path) -> str:
    return words_of(section(runs_page([run], run / "report.html"), "Who owns what"), instead="|")


def test_the_cut_and_the_workers(run: Path) -> None:
    said = owned(run)
    assert "5.7% of the edges cross" in said and "it receives 9.64 rows of others in every exchange" in said
    assert "cut edges||31,877 (5.7%)" in said and "nodes, largest part / mean||1.03" in said
    assert "worker 1||31,825||284,118||3,173||15,890||401 MiB" in said


def test_without_a_partition_the_events_tell(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    del summary["partition"]
    (run / "summary.json").write_text(json.dumps(summary))
    said = owned(run)
    assert "||owned nodes||halo rows||peak memory|" in said and "worker 0||31,810||2,961||393 MiB" in said
    assert "of the edges cross" not in said and "training nodes" not in said


def overlap(page: str) -> str:
    return words_of(section(page, "Overlap"), instead=" ")


def test_the_page_says_how_the_wire_was_hidden(run: Path, tmp_path: Path) -> None:
    said = overlap(runs_page([run], run / "report.html"))
    assert "Layers 1 and 2: boundary first. Rows that other workers need" in said
    assert "85.0% of a worker's rows have nothing to do with other workers" in said and "80.0% on the worker" in said
    assert "plain overlap" not in said and "late" not in said
    alone = write_run(tmp_path / "alone", workers=1)
    assert "<h2>Overlap" not in runs_page([alone], tmp_path / "alone.html")


def test_the_page_says_where_the_wire_was_not_hidden_well_and_why(run: Path, tmp_path: Path) -> None:
    events = (run / "events-0.jsonl").read_text()
    ways = {"1": "boundary first", "2": "plain overlap: <batch> norm", "3": "plain overlap: <batch> norm"}
    old = json.dumps({"1": "boundary first", "2": "boundary first"})
    assert old in events
    (run / "events-0.jsonl").write_text(events.replace(old, json.dumps(ways)))
    settings = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(settings | {"freshness": {"mode": "delayed"}}))
    said = overlap(runs_page([run], run / "report.html"))
    assert "Layer 1: boundary first. " in said
    assert (
        "Layers 2 and 3: plain overlap (&lt;batch&gt; norm). A layer sends its rows when all of them are computed"
        in said
    )
    assert "Rows are used one epoch late" in said
    both = overlap(runs_page([run, write_run(tmp_path / "varco", "varco")], tmp_path / "both.html"))
    assert "layer 1: boundary first; layers 2 and 3: plain overlap (&lt;batch&gt; norm); rows are used" in both
    assert "layers 1 and 2: boundary first" in both


def test_what_is_known_of_a_pyg_model_in_the_end_is_told(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    layers = {"first": {"kind": "SAGEConv", "path": "native", "reason": ""}}
    ways = {"first": "plain overlap: PyG model", "second": "not hidden: attention takes all rows at once"}
    summary |= {"layer_paths": layers, "overlap": ways, "rows_as_they_are": True}
    assert "halo bytes per epoch at 1 bit" in runs_page([run], run / "report.html")
    summary["partition"]["bytes_per_epoch"] = {"32": 0, "1": 0}
    (run / "summary.json").write_text(json.dumps(summary))
    text = runs_page([run], run / "report.html")
    said = overlap(text)
    assert "Layer first: plain overlap (PyG model). A layer sends its rows" in said
    assert "Layer second: not hidden (attention takes all rows at once). Nothing is computed while its rows" in said
    assert "coded as they are, not as changes" in text
    assert "halo bytes per epoch at" not in text, "unknown is not nothing"


def test_the_layers_of_a_model_of_ones_own(run: Path, tmp_path: Path) -> None:
    assert "<h2>Layers</h2>" not in runs_page([run], tmp_path / "without.html")
    summary = json.loads((run / "summary.json").read_text())
    summary["layer_paths"] = {
        "first": {"kind": "GCNConv", "path": "native", "reason": ""},
        "second": {"kind": "GATConv", "path": "general", "reason": "dropout of attention while training"},
    }
    (run / "summary.json").write_text(json.dumps(summary))
    text = runs_page([run], tmp_path / "with.html")
    assert "<h2>Layers</h2>" in text and "serve 1 of 2 layers" in text and "stood in" not in text
    assert "<td>GATConv</td><td>general</td><td>dropout of attention while training</td>" in text
    summary["kernels"] = "torch"
    (run / "summary.json").write_text(json.dumps(summary))
    assert "s own: this machine has no native kernels." in runs_page([run], tmp_path / "twins.html")


def test_the_bubble_stands_next_to_the_formula(tmp_path: Path) -> None:
    run = write_pipeline(tmp_path / "run", stages=4, parts=2, chunks=16)
    said = words_of(section(runs_page([run], tmp_path / "report.html"), "The pipeline"), instead="|")
    assert "in work: 15.8% in the mean. " in said and "have (S\u22121)/(C+S\u22121) = 15.8%." in said
    assert "Strips inside the boxes are waits for halo rows." in said
    assert said.count("|bubble 15.8%|") == 8, "also of stages that are done before the first one"
    assert "worker 3: stage 1, part 1|" in said and "worker 3: stage 1, part 1, layers 5 to 8: forward" in said
    seconds = 2 * 16 * 0.9 * WORK / 2
    row = re.search(r"\|0\|+0\|+0\|+1 to 4\|([^\n]*?)15.8%\|+15.8%", said)
    assert row and [cell for cell in row[1].split("|") if cell] == [
        f"{seconds:.2f} s", f"{seconds:.2f} s", "30.0 ms", f"{32 * LATE * 1e3:.1f} ms", "32.0 ms",
    ]  # fmt: skip


def test_many_workers_are_drawn_in_part_and_listed_in_full(tmp_path: Path) -> None:
    run = write_pipeline(tmp_path / "run", stages=20, chunks=4)
    drawn = section(runs_page([run], tmp_path / "report.html"), "The pipeline")
    assert f"{MOST_LINES} of 20" in drawn and drawn.count('class="name"') == MOST_LINES
    assert len(re.findall(r"<tr><th scope=\"row\">", drawn)) == 20


def test_no_timeline_no_section_and_no_trace(run: Path) -> None:
    assert "The pipeline" not in runs_page([run], run / "report.html")
    assert not (run / "report.trace.json").exists()


def test_several_runs_have_none_of_it(tmp_path: Path) -> None:
    runs = [write_pipeline(tmp_path / "pipe"), write_run(tmp_path / "exact")]
    text = runs_page(runs, tmp_path / "both.html")
    assert "The pipeline" not in text and "Halo rows and rows between stages" in text
    assert not (tmp_path / "both.trace.json").exists()


@pytest.mark.parametrize(
    "broken",
    [
        {"spans": None}, {"spans": [["forward", 0, -1, 1.0]]}, {"spans": [["sleep", 0, -1, 0.0, 1.0]]},
        {"spans": [["forward", 0, -1, 2.0, 1.0]]}, {"spans": [["forward", "x", -1, 0.0, None], 3]},
        {"stage": None}, {"ideal_bubble": None},
    ],
)  # fmt: skip
def test_timelines_that_cannot_be_read_are_left_out(tmp_path: Path, broken: dict[str, object]) -> None:
    run = write_pipeline(tmp_path / "run")
    path = run / "events-1.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    changed = [event | broken if event["event"] == "timeline" else event for event in events]
    path.write_text("".join(json.dumps(event) + "\n" for event in changed))
    drawn = section(runs_page([run], tmp_path / "report.html"), "The pipeline")
    assert "worker 0:" in drawn and "worker 1:" not in drawn
