"""The benchmark of bytes: its formula by hand, and tables of results of which pieces are missing."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench.bytes.__main__ import main
from bench.bytes.formula import completed, epoch_bytes
from bench.bytes.table import fewer, noise, tables, verdict
from bench.bytes.times import Length, labels_for, measure_turns
from bench.bytes.ways import AGAIN, ALL, CHOSEN, HOME_AND_SUMS, LAYERS, PLAIN, WAYS

from halowire.training import ModelConfig
from halowire.wire import HEADER_BYTES

CLASSES, PARTS, HALO, COVER = 5, 3, 100, 60
ROWS: dict[str, Any] = {
    "nodes": 50, "edges": 200, "classes": CLASSES, "halo_rows": HALO, "cover_rows": COVER, "cover_seconds": 0.5,
    "cut_share": 0.5, "work": 1.0, "memory": 1.0, "choices": [], "seconds": 1.5,
}  # fmt: skip
EPOCH = {"sent": 4000, "setup": 100, "memory": 10**7, "seconds": 1.0}
RESULTS: dict[str, Any] = {
    "rows": {"rings 3 metis": ROWS, "rings 3 hypergraph": ROWS},
    "epochs": {f"rings 3 3 {label}": EPOCH for label in WAYS},
}


@pytest.mark.parametrize(("label", "rows", "first"), [
    ("plain", HALO, True), ("first layer", HALO, False), ("sums", COVER, True), ("both", COVER, False),
    ("hypergraph", HALO, True), ("all", COVER, False),
])  # fmt: skip
def test_bytes_of_an_epoch_by_hand(label, rows, first):
    """Three layers exchange twice, hidden columns and classes; forward and backward, a header for each pair."""
    last = 2 * (4 * rows * CLASSES + 6 * HEADER_BYTES)
    hidden = 2 * (4 * rows * ModelConfig().hidden + 6 * HEADER_BYTES)
    assert epoch_bytes(ROWS, label, 3, PARTS) == last + hidden * first
    assert epoch_bytes(ROWS, label, 2, PARTS) == last * first


def test_what_was_counted_is_not_computed():
    found = completed({"rows": RESULTS["rows"], "epochs": {f"rings 3 3 {PLAIN}": EPOCH}})
    assert found[f"rings 3 3 {PLAIN}"] == EPOCH
    assert found["rings 3 3 both"] == {"sent": epoch_bytes(ROWS, "both", 3, PARTS), "computed": True}
    assert len(found) == len(LAYERS) * 6


@pytest.mark.parametrize("label", WAYS)
def test_tables_of_partial_results(label):
    """Whatever one way lacks, the others have their line."""
    results = copy.deepcopy(RESULTS)
    del results["epochs"][f"rings 3 3 {label}"]
    text = tables(results)
    assert ("What is paid" in text) == (label != PLAIN) and "| rings | 3 | metis | 100 | 60 |" in text


@pytest.mark.parametrize("missing", ["rings 3 metis", "rings 3 hypergraph"])
def test_tables_without_the_rows_of_a_cut(missing):
    results = copy.deepcopy(RESULTS)
    del results["rows"][missing]
    assert "| rings | 3 |" in tables(results)


def test_seconds_of_a_cover_may_be_missing():
    """Those that were measured otherwise were dropped."""
    results = copy.deepcopy(RESULTS)
    del results["rows"]["rings 3 metis"]["cover_seconds"]
    assert "| 1.5 |  |" in tables(results)
    assert tables({}) == ""


def test_times_fewer_is_infinite_where_nothing_travels():
    assert fewer({PLAIN: EPOCH, "both": EPOCH | {"sent": 0}}, "both") == float("inf")
    assert fewer({PLAIN: EPOCH, "both": EPOCH | {"sent": 1000}}, "both") == 4


def times(chosen: float, *again: float) -> dict[str, Any]:
    return {PLAIN: [1.0, 1.2], CHOSEN: [chosen, 9.0], AGAIN: list(again), "others": 0.1, "epochs": 4}


@pytest.mark.parametrize(("chosen", "words"), [
    (1.05, "within noise, 1.05"), (0.95, "within noise, 0.95"), (1.15, "**slower**, 1.15"), (0.5, "faster, 0.50"),
])  # fmt: skip
def test_a_verdict_is_held_against_every_row_measured_twice(chosen, words):
    one = times(chosen, 1.0, 1.32)
    assert noise(one) == pytest.approx(1.1) and verdict(one) == words
    text = tables({"times": {"rings 2 100mbit": one}})
    assert f"| rings | 2 | 100mbit | 2 x 4 | 1.000 | {chosen:.3f} ({1 / chosen:.2f}) |  |  | 1.10 | {words} |" in text


def test_every_way_has_its_part_of_every_turn():
    asked: list[dict[str, Any]] = []

    def timed(epochs: int, warm: int, settings: dict[str, Any], shards: str) -> Any:
        asked.append(settings | {"epochs": epochs, "shards": shards})
        return SimpleNamespace(seconds=float(len(asked)), others=0.2)

    labels = labels_for(4)
    assert labels == [PLAIN, CHOSEN, HOME_AND_SUMS, ALL, AGAIN] and labels_for(1) == [PLAIN, CHOSEN, AGAIN]
    session: Any = SimpleNamespace(timed=timed)
    found = measure_turns(session, {label: Path(label) for label in labels}, "100mbit", Length(2, 1))
    assert found[PLAIN] == [1.0, 6.0] and found[AGAIN] == [5.0, 10.0] and found["others"] == 0.2
    assert asked[0] | {"shards": AGAIN} == asked[4] and asked[1]["wire.link"] == 100.0
    assert {one["epochs"] for one in asked} == {1} == {found["epochs"]}


def test_a_short_trial_of_the_times_needs_a_file_of_its_own(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bytes", "--steps", "times", "--turns", "1"])
    with pytest.raises(SystemExit):
        main()
    assert "--out of its own" in capsys.readouterr().err
