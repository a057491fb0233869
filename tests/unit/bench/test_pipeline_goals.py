"""The pipeline benchmark's words: every goal is judged, what failed or was computed is shown as such, nothing hides."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from bench.netlab import LabError
from bench.pipeline import __main__ as bench
from bench.pipeline.cases import CASES, WAYS
from bench.pipeline.formulas import wire_seconds
from bench.pipeline.goals import choice, communication, goals
from bench.pipeline.table import markdown
from bench.timing.rate import PAYLOAD


def run(seconds: float, halo: float, stage: float, waiting: float = 0.0) -> dict[str, Any]:
    return {
        "seconds": seconds, "waiting": waiting, "halo_bytes": halo, "stage_bytes": stage, "weight_bytes": 0.0,
        "bubble": None, "formula": {"halo": halo, "stage": stage},
    }  # fmt: skip


def case(graph: str, model: str, pipeline: dict[str, Any], one_bit: dict[str, Any]) -> dict[str, Any]:
    runs = {"graph parallel": run(10.0, 700.0, 0.0, 8.0), "pipeline": pipeline, "one-bit pipeline": one_bit}
    facts = {"graph": graph, "model": model, "layers": 32, "rate": 1e6, "null": {"seconds": 2.0}, "halo_share": 0.1}
    return facts | {"runs": runs, "computed": {}, "failed": {}}


def test_goals_are_met_or_missed():
    good = case("coauthor-physics", "gcn", run(4.0, 0, 100), run(3.0, 0, 4))
    found = "\n".join(goals({"cases": {"coauthor-physics gcn": good}}))
    assert "2.50 times as fast" in found and "2.45 in the best case: met" in found
    assert "about 7 times fewer bytes wanted, 7.0 times fewer: met" in found
    assert "than float32 stage links everywhere: met, 25.0 at least" in found and "missed" not in found
    bad = case("coauthor-physics", "gcn", run(4.2, 0, 140), run(3.0, 0, 40))
    found = "\n".join(goals({"cases": {"coauthor-physics gcn": bad}}))
    assert found.count("**missed**") == 4
    gcnii = case("coauthor-physics", "gcnii", run(4.0, 0, 200), run(3.0, 0, 4))
    assert "about 7" not in "\n".join(goals({"cases": {"coauthor-physics gcnii": gcnii}}))


@pytest.mark.parametrize(("sent", "word"), [(1400.0, "met"), (350.0, "**missed**")])
def test_the_tiny_cut_sends_more(sent, word):
    found = goals({"cases": {"x": case("cnr-2000", "gcn", run(20.0, 0, sent), run(3.0, 0, 30))}})
    assert any(line.startswith("- cnr-2000") and line.endswith(word) for line in found)


def test_the_bubble_is_no_communication():
    assert communication(run(10.0, 0, 1, waiting=2.0), 2, 8) == pytest.approx(1.0)
    assert communication(run(10.0, 0, 1, waiting=2.0), 1, 1) == pytest.approx(2.0)
    assert communication(run(10.0, 0, 1, waiting=0.5), 2, 8) == 0.0


def test_both_ways_through_a_border_come_one_after_the_other():
    sent, rate = {"halo": 0.0, "stage": 1e6}, 1e6 / PAYLOAD
    assert wire_seconds(sent, WAYS["pipeline"], rate) == pytest.approx(8.0)
    assert wire_seconds(sent, WAYS["hybrid"], rate) == pytest.approx(4.0)
    assert wire_seconds({"halo": 1e6, "stage": 0.0}, WAYS["graph parallel"], rate) == pytest.approx(4.0)


def test_failed_and_computed_runs_are_in_the_table():
    found = case("cnr-2000", "gcn", run(20.0, 0, 1400), run(3.0, 0, 30))
    del found["runs"]["pipeline"]
    found["computed"]["pipeline"] = {"seconds": 300.0, "formula": {"halo": 0, "stage": 1400}}
    found["failed"]["hybrid"] = "the workers ended:\nKilled"
    text = markdown({"cases": {"cnr-2000 gcn": found}})
    assert "| pipeline (computed, not measured) | ≥ 300 |" in text and "| hybrid | **failed**: Killed |" in text
    assert "| cnr-2000 gcn | 1 | 10.0 | 80% | ≤ 0.03x | 3.33x | failed | 2.0 x | 1/23.3 |" in text
    assert "Fastest: one-bit pipeline on cnr-2000 gcn." in choice({"cases": {"cnr-2000 gcn": found}})
    lone = {"graph": "x", "model": "gcn", "runs": {}, "computed": {}, "failed": {"graph parallel": "Killed"}}
    assert "graph parallel **failed**: Killed" in markdown({"cases": {"x gcn": lone}})


class Nothing:
    """Stands in for the lab and the session."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


def bench_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Any) -> tuple[bench.Bench, list[str]]:
    options = argparse.Namespace(work=tmp_path, data=None, patience=0.0, minutes=1.0, retry=False)
    found, tried = bench.Bench(options, tmp_path / "result.json"), list[str]()

    def work(case: Any, model: str, way: Any, *_: Any) -> None:
        tried.append(f"{model} {way.name}")
        if way.name in broken:
            raise broken[way.name]
        found._kept(case, model)["runs"][way.name] = run(1.0, 1.0, 1.0)
        found._kept(case, model).update(rate=1e6, null={"seconds": 1.0}, halo_share=0.1)

    monkeypatch.setattr(found, "_run", work)
    monkeypatch.setattr(bench, "Lab", Nothing)
    monkeypatch.setattr(bench, "Session", Nothing)
    return found, tried


def test_a_dead_worker_costs_one_measurement(tmp_path, monkeypatch):
    found, tried = bench_of(tmp_path, monkeypatch, {"pipeline": RuntimeError("the workers ended: out of memory")})
    found.measure(CASES["small"], ["gcn", "sage"], list(WAYS.values()))
    assert sorted(tried) == sorted(f"{model} {way}" for model in ("gcn", "sage") for way in WAYS)
    found.save()
    kept = json.loads((tmp_path / "result.json").read_text())["cases"]["small sage"]
    assert kept["failed"] == {"pipeline": "the workers ended: out of memory"} and len(kept["runs"]) == len(WAYS) - 1
    assert not found.missing(CASES["small"], ["gcn", "sage"], list(WAYS.values()))


def test_without_graph_parallelism_there_is_no_rate(tmp_path, monkeypatch):
    found, tried = bench_of(tmp_path, monkeypatch, {"graph parallel": RuntimeError("died")})
    found.measure(CASES["small"], ["gcn"], list(WAYS.values()))
    assert tried == ["gcn graph parallel"]


def test_a_lab_that_cannot_be_built_ends_it(tmp_path, monkeypatch):
    found, _ = bench_of(tmp_path, monkeypatch, {"pipeline": LabError("no root")})
    with pytest.raises(LabError):
        found.measure(CASES["small"], ["gcn"], list(WAYS.values()))


def test_the_hybrid_is_also_held_against_its_own_four_workers():
    found = case("ogbn-arxiv", "gcn", run(4.0, 0, 100), run(3.0, 0, 4))
    found["runs"] |= {"hybrid": run(20.0, 700, 100), "graph parallel, 4 workers": run(25.0, 1400, 0)}
    lines = goals({"cases": {"ogbn-arxiv gcn": found}})
    assert any(line.startswith("- hybrid: 0.50 times as fast") for line in lines)
    assert any(line.startswith("- hybrid against graph parallel, 4 workers: 1.25 times as fast") for line in lines)
    four = WAYS["graph parallel, 4 workers"]
    assert CASES["ogbn-arxiv"].takes("gcn", four) and not CASES["cnr-2000"].takes("gcn", four)
    assert all(CASES["cnr-2000"].takes("gcn", way) for way in WAYS.values() if way is not four)
