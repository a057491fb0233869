"""Regression on the command line: the flag, the best epoch, the report, the comparison, the predictions."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

from halowire.graph import write_npz
from tests.support.small_graphs import VALUE_NODES, graph_of_values
from tests.unit.cli.conftest import FAST


def test_the_command_line_learns_values(halowire):
    graph = graph_of_values(1)
    arrays = {name: getattr(graph, name).numpy() for name in ("x", "train_mask", "val_mask", "test_mask")}
    np.savez("plain.npz", edge_index=graph.edge_index().numpy(), y=graph.y[:, 0].numpy(), **arrays)
    said = halowire("train", "plain.npz", *FAST, "--out", "no")
    assert said.code == 2 and "--task regression" in said.err
    words = ("train", "plain.npz", "--task", "regression", *FAST, "--eval.every", "1", "--epochs", "30")
    assert halowire(*words, "--out", "run", "--model.dropout", "0").code == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["metric"] == "rmse" and summary["other_metrics"].keys() >= {"test_mae", "test_r2", "val_mae"}
    events = [json.loads(line) for line in Path("run/events-0.jsonl").read_text().splitlines()]
    values = {event["epoch"]: event["val"] for event in events if event["event"] == "eval"}
    assert summary["val"] == min(values.values()) < max(values.values())
    assert summary["best_epoch"] == min(values, key=values.get)
    assert "RMSE" in Path("run/report.html").read_text()
    assert halowire("predict", "run", "--out", "p.csv").code == 0
    with Path("p.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["id", "value"] and len(rows) == VALUE_NODES + 1
    assert halowire("predict", "run", "--out", "p.npy").code == 0
    np.testing.assert_allclose(np.array([float(row[1]) for row in rows[1:]]), np.load("p.npy")[:, 0], rtol=1e-6)


def test_shards_keep_their_values_and_a_comparison_knows_what_is_better(halowire):
    write_npz(graph_of_values(), Path("values.npz"))
    assert halowire("partition", "values.npz", "--parts", "1", "--out", "shards", "--quiet").code == 0
    assert halowire("train", "shards", *FAST, "--out", "run", "--task.metric", "mae").code == 0
    said = halowire("compare", "values.npz", "--recipes", "exact,half", "--seeds", "2", "--out", "all", *FAST)
    assert said.code == 0 and "RMSE" in said.out and "%" not in said.out
    page = Path("all/compare.html").read_text()
    assert "Lower left is better" in page and "RMSE" in page
