"""The ledger's bytes are the bytes that the operating system sent, and those of the formulas, whatever need not travel.

Set-up, halos, gradients and evaluation are counted together; only a worker's halo rows have formulas.
"""

from __future__ import annotations

import json

import pytest
from bench.netlab import Lab, possible

from halowire.events import read_events
from halowire.partitioning import Quality, read_manifest, read_shard
from halowire.wire import HEADER_BYTES

GRAPH = "sbm:nodes=20000,edges=200000,features=64,classes=10"
CLASSES = 10
CASES = [
    ("sage", "--wire.plain", "", 2),
    ("sage", "--wire.cover on --wire.first-layer local", "both", 1),
    ("gcn", "--wire.first-layer local --model.layers 2", "first layer at home", 0),
    pytest.param("sage", "--wire.first-layer local --model.layers 2", "first layer at home", 0, marks=pytest.mark.slow),
    pytest.param("gcn", "--wire.cover on --wire.first-layer exchange", "partial sums", 2, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("model", "wire", "reduction", "exchanges"), CASES)
def test_ledger_equals_the_operating_system(tmp_path, model, wire, reduction, exchanges):
    """With two layers, of which the first is computed at home, no halo row is sent: the system counts none either."""
    if reason := possible():
        pytest.skip(reason)
    flags = f"--epochs 6 --model.hidden 64 --model.name {model} --partition.method random --eval.every 3 {wire}"
    command = ["halowire", "train", GRAPH, *flags.split(), "--out", str(tmp_path / "run-{host}")]
    with Lab(hosts=2, rate=None, prefix="netlab-bytes") as lab:
        before = sum(lab.sent_bytes())
        results = lab.run(command, timeout=120, logs=tmp_path)
        assert [result.code for result in results] == [0, 0], "".join(result.output for result in results)
        counted = sum(lab.sent_bytes()) - before
    assert "interface eth0 (10.87.0.1)" in results[0].output
    summary = json.loads((tmp_path / "run-0" / "summary.json").read_text())
    ledger = summary["wire_bytes_total"]
    events = [e for host in range(2) for e in read_events(tmp_path / f"run-{host}" / f"events-{host}.jsonl")]
    epochs = [event for event in events if event["event"] == "epoch"]
    assert summary["wire_bytes_per_epoch"] == sum(event["wire_bytes"] for event in epochs) / 6
    assert summary["gradient_bytes_per_epoch"] == sum(event["gradient_bytes"] for event in epochs) / 6
    quality = Quality.from_json(read_manifest(tmp_path / "run-0" / "shards")["quality"])
    rows = quality.reduced_bytes[reduction] if reduction else quality.bytes_per_epoch
    assert summary["wire_bytes_per_epoch"] == rows["32"] + 2 * 2 * exchanges * HEADER_BYTES
    assert (summary["wire_bytes_per_epoch"] > 0) == (exchanges > 0)
    assert 1.0 <= counted / ledger <= 1.05, f"the ledger says {ledger} bytes, the operating system {counted}"


SHORT, LONG = 4, 44


@pytest.mark.parametrize("model", [pytest.param("gcn", marks=pytest.mark.slow), "sage"])
def test_epochs_of_two_layers_send_nothing_but_weight_gradients(tmp_path, model):
    """Two runs of different length: what the operating system sends more for the longer one is sent by its epochs.

    Set-up and the one evaluation at the end are the same, so that nothing else can hide in them.
    """
    if reason := possible():
        pytest.skip(reason)
    flags = f"--model.hidden 64 --model.name {model} --model.layers 2 --wire.first-layer local --eval.every 1000"
    command = ["halowire", "train", GRAPH, *flags.split(), "--partition.method", "random"]
    counted, summaries = [], []
    with Lab(hosts=2, rate=None, prefix="netlab-epochs") as lab:
        for epochs in (SHORT, LONG):
            before = sum(lab.sent_bytes())
            out = tmp_path / str(epochs)
            here = [*command, "--epochs", str(epochs), "--out", f"{out}-{{host}}"]
            results = lab.run(here, timeout=120, logs=tmp_path)
            assert [result.code for result in results] == [0, 0], "".join(result.output for result in results)
            counted.append(sum(lab.sent_bytes()) - before)
            summaries.append(json.loads((tmp_path / f"{epochs}-0" / "summary.json").read_text()))
    assert [summary["wire_bytes_per_epoch"] for summary in summaries] == [0, 0]
    gradients = (LONG - SHORT) * summaries[0]["gradient_bytes_per_epoch"]
    assert summaries[1]["wire_bytes_total"] - summaries[0]["wire_bytes_total"] == gradients
    assert 1.0 <= (counted[1] - counted[0]) / gradients <= 1.1, f"{counted} bytes, of which {gradients} are gradients"


@pytest.mark.slow
@pytest.mark.parametrize(("wire", "recipe"), [
    ("--wire.cover on", "exact"), ("--wire.cover off", "halowire"),
    ("--wire.cover on --wire.first-layer local --partition.method hypergraph", "exact"),
])  # fmt: skip
def test_two_machines_of_two_workers(tmp_path, wire, recipe):
    """In the last case with everything that need not travel."""
    if reason := possible():
        pytest.skip(reason)
    flags = f"--epochs 6 --model.hidden 64 --recipe {recipe} --partition.method random --eval.every 3 {wire}"
    command = ["halowire", "train", GRAPH, *flags.split(), "--out", str(tmp_path / "run-{host}")]
    with Lab(hosts=2, rate=None, prefix="netlab-machines") as lab:
        before = sum(lab.sent_bytes())
        results = lab.run(command, timeout=300, logs=tmp_path, workers=2)
        assert [result.code for result in results] == [0, 0], "".join(result.output for result in results)
        counted = sum(lab.sent_bytes()) - before
    assert "; 2 machines" in results[0].output
    summary = json.loads((tmp_path / "run-0" / "summary.json").read_text())
    ledger = summary["wire_bytes_total"]
    files = sorted(tmp_path.glob("run-*/events-*.jsonl"))
    events = [event for file in files for event in read_events(file)]
    starts = [event for event in events if event["event"] == "start"]
    assert len(starts) == 4
    carried, needed = (sum(start[name] for start in starts) for name in ("carried_rows", "machine_rows"))
    assert carried < 0.9 * needed
    epochs = [event for event in events if event["event"] == "epoch"]
    assert summary["wire_bytes_per_epoch"] == sum(event["wire_bytes"] for event in epochs) / 6
    assert summary["local_bytes_per_epoch"] == sum(event["local_bytes"] for event in epochs) / 6 > 0
    if "local" in wire:
        # One exchange is left, of the products with the last layer's weights, out and back, in float32.
        row, messages = 2 * 4 * CLASSES, 2 * HEADER_BYTES
        counts = [read_shard(tmp_path / "run-0" / "shards", part).cover_counts() for part in range(4)]
        beside = sum(counts[part][part ^ 1] for part in range(4))  # workers 0 and 1 share a machine, and 2 and 3
        assert summary["wire_bytes_per_epoch"] == carried * row + 8 * messages
        assert summary["local_bytes_per_epoch"] == (beside + needed - carried) * row + (4 + 4) * messages
    assert 1.0 <= counted / ledger <= 1.05, f"the ledger says {ledger} bytes, the operating system {counted}"
