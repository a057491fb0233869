"""Partial sums in the place of halo rows change nothing but the bytes: results, resumed runs, formulas of bytes."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from halowire.layers import MODELS
from halowire.training import Config, GraphParallel, Trainer
from halowire.wire import HEADER_BYTES, Transport
from tests.support import wire_case
from tests.support.epochs import difference, train_epochs
from tests.support.exact_case import compare_dense, make_config, train_here
from tests.support.parity_graphs import cut_graph, make_graph
from tests.support.resumed import assert_same, run_in_one_go, run_in_two

SUMS = [name for name, model in MODELS.items() if model.can_sample]
CASES = [(3, "gcn", "random", "directed-weighted"), (4, "sage", "hypergraph", "sparse"), (3, "sage", "random", "words")]


def covered(config: Config) -> Config:
    return config.replace({"wire.cover": "on"})


@pytest.mark.parametrize(("workers", "model", "method", "case"), CASES)
def test_workers_equal_the_dense_reference(on_workers, workers, model, method, case):
    config = covered(make_config(model))
    compare_dense(on_workers(workers, train_here, case, method, config), case, config)


def test_workers_whose_features_are_sparse_and_others_whose_are_not(on_workers):
    """All agree on what stands for the features of the halo: rows, since partial sums are made of dense ones."""
    config = covered(make_config("sage"))
    compare_dense(on_workers(2, train_here, "half sparse", "equal ranges", config), "half sparse", config)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["metis", "random", "hypergraph"])
@pytest.mark.parametrize("model", ["gcn", "sage"])
@pytest.mark.parametrize("case", ["plain", "multi-label", "sparse", "words", "directed", "directed-weighted"])
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_every_graph_and_cut(on_workers, workers, model, method, case):
    config = covered(make_config(model))
    compare_dense(on_workers(workers, train_here, case, method, config), case, config)


def with_and_without(rank: int, settings: dict[str, Any], method: str) -> list[dict[str, Any]]:
    """The epochs of this worker with partial sums and without, in pieces of few rows."""
    config = wire_case.make_config(settings)
    return [wire_case.train_here(rank, one, method) for one in (covered(config), config)]


def same(results: list[list[dict[str, Any]]]) -> None:
    for on, off in results:
        words = difference(on["epochs"], off["epochs"], 1e-4)
        assert not words, words
    assert sum(sum(on["sent"]) for on, _ in results) < sum(sum(off["sent"]) for _, off in results)


WIRES = {
    "deep": {"model.name": "gcnii", "model.layers": 4},
    "delayed": {"freshness.mode": "delayed", "freshness.smoothing": 0.5, "freshness.sync_every": 3},
    "columns": {"model.name": "resgcn", "rate.ratio": 3.0, "rate.rescale": True},
    "features in every epoch": {"rate.resend_input": True, "rate.ratio": 2.0},
}


@pytest.mark.parametrize("settings", WIRES.values(), ids=WIRES)
def test_other_wires_give_what_they_give_without_partial_sums(on_workers, settings):
    same(on_workers(3, with_and_without, settings, "random"))


@pytest.mark.slow
@pytest.mark.parametrize("model", SUMS)
@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("settings", WIRES.values(), ids=WIRES)
def test_every_model_and_wire(on_workers, settings, workers, model):
    if settings.get("rate.resend_input") and not MODELS[model].sums_input:
        settings = {"rate.ratio": 2.0}
    same(on_workers(workers, with_and_without, settings | {"model.name": model}, "random"))


@pytest.mark.parametrize(("bits", "rows"), [(32, 1.0), (4, 0.3)])
def test_bytes_follow_the_formula(on_workers, bits, rows):
    settings = {"rate.bits": bits, "rate.rows": rows, "wire.cover": "on"}
    results = on_workers(3, wire_case.train_here, wire_case.make_config(settings))
    counts = [count for shard in cut_graph(wire_case.make_graph(), 3) for count in shard.cover_counts() if count]
    columns = (wire_case.HIDDEN, wire_case.CLASSES)
    row = sum(k * bits // 8 if bits >= 16 else -(-k * bits // 8) + 4 for k in columns) * 2
    want = sum(max(1, round(rows * count)) for count in counts) * row + 4 * HEADER_BYTES * len(counts)
    for epoch in range(wire_case.EPOCHS):
        assert wire_case.bytes_sent(results, epoch) == want


def budget_here(rank: int) -> dict[str, Any]:
    settings = {"epochs": 12, "rate.schedule": "budget", "rate.budget": 200_000.0, "wire.cover": "on"}
    return wire_case.train_here(rank, wire_case.make_config(settings))


def test_a_budget_is_planned_with_the_rows_that_travel(on_workers):
    results = on_workers(2, budget_here)
    spent = sum(wire_case.bytes_sent(results, epoch) for epoch in range(12))
    assert spent == pytest.approx(200_000, rel=0.02)


def inductive_here(rank: int, cover: str) -> dict[str, Any]:
    """Train on the training nodes; logits are those of the whole graph."""
    config = make_config("sage").replace({"task.inductive": True, "wire.cover": cover, "epochs": 3})
    graph, transport = make_graph("plain"), Transport()
    whole = cut_graph(graph, transport.size)[rank]
    train = cut_graph(graph.subgraph(graph.train_mask), transport.size)[rank]
    view = GraphParallel(train, whole, config, transport)
    return train_epochs(Trainer(view, config, transport, Path(tempfile.mkdtemp())), 3)


def test_inductive_training(on_workers):
    for on, off in zip(on_workers(2, inductive_here, "on"), on_workers(2, inductive_here, "off"), strict=True):
        words = difference(on["epochs"], off["epochs"], 1e-4)
        assert not words, words


@pytest.mark.parametrize("backward", [0, 8])
def test_bytes_of_sums_in_more_bits_follow_the_formula(on_workers, backward):
    """Gradients of sums have the bits of all gradients."""
    settings = {"rate.bits": 1, "rate.backward_bits": backward, "rate.sums": 4, "wire.cover": "on"}
    results = on_workers(3, wire_case.train_here, wire_case.make_config(settings))
    shards = cut_graph(wire_case.make_graph(), 3)
    counts = [count for shard in shards for count in shard.cover_counts() if count]
    rows = sum(int(shard.cover().sum()) for shard in shards)
    sums = sum(counts) - rows

    def size(bits: int) -> int:
        return sum(-(-k * bits // 8) + 4 for k in (wire_case.HIDDEN, wire_case.CLASSES))

    want = rows * size(1) + sums * size(4) + (rows + sums) * size(backward or 1)
    assert rows and sums
    for epoch in range(wire_case.EPOCHS):
        assert wire_case.bytes_sent(results, epoch) == want + 4 * HEADER_BYTES * len(counts)


LATE = {"rate.bits": 1, "rate.sums": 4, "freshness.mode": "delayed", "wire.cover": "on", "epochs": 8, "eval.every": 2}


def trainer_of(rank: int, run: str) -> Trainer:
    config, transport = make_config("gcn").replace(LATE), Transport()
    shard = cut_graph(make_graph("plain"), transport.size)[rank]
    return Trainer(GraphParallel(shard, shard, config, transport), config, transport, Path(run))


def straight_here(rank: int, run: str) -> dict[str, Any]:
    return run_in_one_go(trainer_of(rank, run))


def interrupted_here(rank: int, run: str) -> tuple[str, dict[str, Any]]:
    return run_in_two(partial(trainer_of, rank, run), 5, asked=rank == 0)


def test_a_late_one_bit_run_resumes_exactly(on_workers, tmp_path):
    straight = on_workers(2, straight_here, str(tmp_path / "one"))
    for want, (status, got) in zip(straight, on_workers(2, interrupted_here, str(tmp_path / "two")), strict=True):
        assert status == "stopped"
        assert_same(got, want)


def chosen_here(rank: int, case: str) -> tuple[bool, list[int]]:
    config, transport = make_config("sage").replace({"wire.cover": "auto"}), Transport()
    shard = cut_graph(make_graph(case), transport.size, "range" if case == "lane" else "metis")[rank]
    view = GraphParallel(shard, shard, config, transport)
    return view.exchange.policy.cover, [rows - shard.num_halo for rows in view.facts()["wire_rows"].values()]


def test_auto_covers_where_rows_are_saved(on_workers):
    assert all(cover and max(more) <= 0 for cover, more in on_workers(3, chosen_here, "plain"))
    assert on_workers(3, chosen_here, "lane") == [(False, [0, 0])] * 3, "a lane's rows are all needed"
