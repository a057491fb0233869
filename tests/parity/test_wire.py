"""The wire against its slow reference: every codec, rate and freshness, gradients element by element over 4 epochs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import torch

from halowire.errors import InputError
from halowire.events import read_events
from halowire.graph import Graph
from halowire.kernels import Csr
from halowire.training import GraphParallel, Trainer, recipe_config
from halowire.wire import Transport
from tests.support.parity_graphs import cut_graph, node_tensors
from tests.support.wire_case import FEATURES, NODES, STEERING, make_config, make_graph, train_here
from tests.support.wire_checks import assert_gradients, find_steady, same, trained
from tests.support.wire_reference import base_bits

VARCO = {f"rate.{name}": value for name, value in vars(recipe_config("varco").rate).items()}
CASES = {
    "half": {"rate.bits": 16},
    "8 bits": {"rate.bits": 8},
    "4 bits": {"rate.bits": 4},
    "sylvie-s": {"rate.bits": 1},
    "two levels": {"rate.bits": 1, "rate.code": "levels"},
    "four levels": {"rate.bits": 2, "rate.code": "levels"},
    "bits that fit": {"rate.bits": 1, "rate.code": "levels", "rate.share": 0.15},
    "bits per direction": {"rate.bits": 8, "rate.backward_bits": 1},
    "bits per layer": {"rate.bits": 8, "rate.layers": "2:1"},
    "bits per layer and direction": {"rate.bits": 8, "rate.layers": "1:4/1,2:2/16"},
    "ratios per layer": {"rate.bits": 4, "rate.ratio": 2.0, "rate.layer_ratios": "1:5"},
    "bits by degree": {"rate.bits": 1, "rate.nodes": "degree"},
    "bits by degree, two levels": {"rate.bits": 1, "rate.nodes": "degree", "rate.code": "levels"},
    "bits by degree, per layer": {"rate.bits": 2, "rate.nodes": "degree", "rate.layers": "1:4/2,2:8/1"},
    "bits by degree, columns": {"rate.bits": 2, "rate.nodes": "degree", "rate.ratio": 3.0, "rate.rescale": True},
    "bits by degree, delayed": {"rate.bits": 1, "rate.nodes": "degree", "freshness.mode": "delayed"},
    "bits by degree, smoothed": {
        "rate.bits": 4,
        "rate.nodes": "degree",
        "freshness.mode": "delayed",
        "freshness.smoothing": 0.6,
        "freshness.sync_every": 3,
    },
    "base bit by loss": {"rate.bits": 2, "rate.base": "loss", "epochs": 12},
    "sylvie-3d": {
        "rate.bits": 2,
        "rate.nodes": "degree",
        "rate.base": "loss",
        "freshness.mode": "adaptive",
        "epochs": 12,
    },
    "input, varco": {
        "rate.resend_input": True,
        "rate.schedule": "linear",
        "rate.max_ratio": 6.0,
        "rate.slope": 1.0,
        "rate.spare_last": True,
    },
    "input, rescaled bits": {"rate.resend_input": True, "rate.ratio": 2.0, "rate.rescale": True, "rate.layers": "0:4"},
    "input, delayed": {"rate.resend_input": True, "rate.bits": 2, "freshness.mode": "delayed"},
    "input, rows": {"rate.resend_input": True, "rate.rows": 0.3},
    "input, delta": {"rate.resend_input": True, "rate.bits": 1, "rate.decay": 0.8, "rate.layer_ratios": "0:2"},
    "input, bits by degree": {"rate.resend_input": True, "rate.bits": 1, "rate.nodes": "degree"},
    "columns": {"rate.ratio": 3.0},
    "first columns": {"rate.ratio": 3.0, "rate.columns": "first", "rate.spare_last": True},
    "first columns, changes": {"rate.ratio": 3.0, "rate.columns": "first", "rate.bits": 4, "rate.decay": 0.8},
    "columns, rescaled": {"rate.ratio": 3.0, "rate.rescale": True},
    "columns x bits": {"rate.ratio": 3.0, "rate.bits": 2},
    "varco": {"rate.schedule": "linear", "rate.max_ratio": 8.0, "rate.slope": 1.0, "rate.spare_last": True},
    "bns": {"rate.rows": 0.3},
    "bns, 1 bit": {"rate.rows": 0.3, "rate.bits": 1},
    "pipegcn": {"freshness.mode": "delayed"},
    "sylvie-a": {"freshness.mode": "delayed", "rate.bits": 1},
    "sylvie-a, bounded": {"freshness.mode": "delayed", "rate.bits": 1, "freshness.sync_every": 2},
    "smoothed": {"freshness.mode": "delayed", "freshness.smoothing": 0.7},
    "smoothed, bounded": {"freshness.mode": "delayed", "freshness.smoothing": 0.7, "freshness.sync_every": 3},
    "delta": {"rate.bits": 1, "rate.code": "levels", "rate.decay": 0.8},
    "delta, gain": {"rate.bits": 1, "rate.decay": 1.0, "rate.gain": 0.2, "rate.backward_code": "clipped"},
    "delta, gain, columns": {"rate.bits": 4, "rate.decay": 0.9, "rate.gain": 0.5, "rate.ratio": 2.0},
    "delta, gain, late": {"rate.bits": 2, "rate.decay": 1.0, "rate.gain": 0.3, "freshness.mode": "delayed"},
    "clipped": {"rate.bits": 1, "rate.code": "clipped"},
    "delta, columns": {"rate.bits": 4, "rate.decay": 0.8, "rate.ratio": 2.0},
    "delta, delayed": {"rate.bits": 1, "rate.decay": 0.9, "freshness.mode": "delayed", "freshness.sync_every": 3},
    "columns, delayed": {"rate.ratio": 2.0, "freshness.mode": "delayed"},
    "rows, delayed": {"rate.rows": 0.4, "freshness.mode": "delayed"},
}


WITH_WORKERS = [
    pytest.param(case, workers, marks=() if workers == (2 if place % 3 else 3) else pytest.mark.slow)
    for place, case in enumerate(CASES)
    for workers in (2, 3)
]
"""Every case is quick with two workers or with three."""


@pytest.mark.parametrize(("case", "workers"), WITH_WORKERS)
def test_gradients_equal_the_reference(on_workers, case, workers):
    config, want = find_steady(CASES[case] | ({"model.name": "gcn"} if workers == 3 else {}), workers)
    assert_gradients(on_workers(workers, train_here, config), want)


LARGE = ["sylvie-s", "columns x bits", "bns", "sylvie-a, bounded", "delta", "delta, delayed", "bits by degree"]
LARGE += ["input, varco", "sylvie-3d"]


@pytest.mark.parametrize("case", LARGE)
def test_large_interiors(on_workers, case):
    config, want = find_steady(CASES[case], 3, "range")
    assert_gradients(on_workers(3, train_here, config, "range"), want)


@pytest.mark.parametrize("case", ["half", "sylvie-s", "delta", "sylvie-a, bounded", "columns x bits"])
def test_whole_messages(on_workers, case):
    config, want = find_steady(CASES[case], 2)
    whole = on_workers(2, train_here, config, "random", NODES)
    assert_gradients(whole, want)
    pieces = on_workers(2, train_here, config, "random", 4)
    assert [result["sent"] for result in whole] == [result["sent"] for result in pieces], "pieces cost no bytes"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"rate.bits": 32, "rate.backward_bits": 32}, {}),
        ({"freshness.mode": "delayed", "freshness.sync_every": 1}, {}),
        ({"freshness.mode": "delayed", "freshness.sync_every": 1, "rate.bits": 1}, {"rate.bits": 1}),
        ({"rate.schedule": "linear", "rate.max_ratio": 1.0, "rate.min_ratio": 1.0}, {}),
        (VARCO | {"rate.max_ratio": 1.0, "rate.min_ratio": 1.0}, {}),
        ({"rate.rows": 1.0, "rate.ratio": 1.0}, {}),
        ({"rate.resend_input": True}, {}),
    ],
)
def test_settings_that_mean_the_same_give_the_same_bits(on_workers, one, other):
    assert same(trained(on_workers, one), trained(on_workers, other))
    assert not same(trained(on_workers, {"rate.bits": 4}), trained(on_workers, other))


def threshold_here(rank: int, rate: float) -> list[bool]:
    """Which epochs are synchronous at a threshold of 1%, with dropout, where the weights move by ``rate``."""
    transport = Transport()
    shard = cut_graph(make_graph(), transport.size)[rank]
    settings = {"freshness.mode": "delayed", "freshness.threshold": 0.01, "optim.lr": rate, "epochs": 6}
    config = make_config(settings)
    view = GraphParallel(shard, shard, config, transport)
    folder = Path(tempfile.mkdtemp())
    Trainer(view, config, transport, folder).run()
    return [event["synchronous"] for event in read_events(folder / f"events-{rank}.jsonl") if event["event"] == "epoch"]


def test_a_threshold_synchronises_when_rows_change_and_not_at_rest(on_workers):
    for rank in (0, 1):
        # Nothing was there before the first epoch, so that rows changed as a whole.
        assert on_workers(2, threshold_here, 1e-9)[rank] == [False, True] + [False] * 4
        assert on_workers(2, threshold_here, 0.05)[rank] == [False] + [True] * 5


def sparse_here(rank: int) -> str:
    graph = make_graph()
    rows = torch.arange(NODES)
    thin = Csr.from_edges(rows, rows % FEATURES, NODES, FEATURES)
    graph = Graph.from_edge_index(graph.edge_index(), NODES, **node_tensors(graph) | {"x": thin})
    transport = Transport()
    shard = cut_graph(graph, transport.size)[rank]
    try:
        GraphParallel(shard, shard, make_config({"rate.resend_input": True}), transport)
    except InputError as error:
        return str(error)
    return ""


def test_sparse_inputs_are_not_sent_again(on_workers):
    for told in on_workers(2, sparse_here):
        assert "needs dense features" in told and "sparse with 8" in told


def test_the_steering_raises_and_lowers_the_bits():
    found = [base_bits(STEERING[:epoch], 2) for epoch in range(12)]
    assert [bits for bits, _ in found] == [2] * 6 + [4] * 4 + [2, 1]
    assert [synchronous for _, synchronous in found] == [False] * 6 + [True] * 4 + [False] * 2
