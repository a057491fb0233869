"""The summary: a worker's memory is its own, waiting is part of the epoch, and the JSON is JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import halowire
from halowire.errors import InputError
from halowire.graph import Graph, block_model

PROBE = "from halowire.training.worker_memory import peak_memory; print(peak_memory())"


def test_memory_of_a_worker_does_not_count_its_launcher():
    launcher = f"""
import subprocess, sys
held = bytearray(1_500_000_000)
held[::4096] = b"x" * len(held[::4096])
print(subprocess.run([sys.executable, "-c", {PROBE!r}], capture_output=True, text=True, check=True).stdout)
"""
    said = subprocess.run([sys.executable, "-c", launcher], capture_output=True, text=True, check=True).stdout
    assert 50_000_000 < int(said) < 1_200_000_000


def test_waiting_is_a_part_of_the_epoch(tmp_path):
    run = halowire.train(
        "sbm:nodes=400,edges=4000,features=8,classes=3", 1, out=tmp_path / "run", settings={"epochs": 3}, quiet=True
    )
    written = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert 0 <= written["wait_seconds"] <= written["epoch_seconds"]
    assert run.summary["partition"]["num_parts"] == 1, "what train returns is what it wrote"
    assert written["epochs"] == 3 and written["status"] == "finished"


def test_a_validation_metric_that_is_undefined_is_refused(tmp_path):
    graph = block_model(60, 300, 4, 2, seed=1)
    y = graph.y.clone()
    y[graph.val_mask] = 0
    masks = {name: getattr(graph, name) for name in ("train_mask", "val_mask", "test_mask")}
    graph = Graph.from_edge_index(graph.edge_index(), 60, graph.x, y, num_classes=2, **masks)
    with pytest.raises(InputError, match="roc-auc of the validation nodes is undefined"):
        halowire.train(graph, 1, out=tmp_path / "run", settings={"epochs": 2, "task.metric": "roc-auc"}, quiet=True)
