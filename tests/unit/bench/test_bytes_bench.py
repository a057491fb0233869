"""The benchmark of bytes: its formula by hand, and tables of results of which pieces are missing."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from bench.bytes.formula import completed, epoch_bytes
from bench.bytes.table import fewer, tables
from bench.bytes.ways import LAYERS, PLAIN, WAYS

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
