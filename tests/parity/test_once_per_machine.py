"""Rows that cross the network once per machine change only the bytes: results, resumed runs, formulas of bytes."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from halowire.layers import MODELS
from halowire.partitioning import Shard
from halowire.training import Config, GraphParallel, Trainer
from halowire.wire import HEADER_BYTES, Machines
from tests.support import wire_case
from tests.support.epochs import difference, train_epochs
from tests.support.exact_case import compare_dense, make_config, train_here
from tests.support.machines import transport_for
from tests.support.parity_graphs import cut_graph, make_graph
from tests.support.resumed import assert_same, run_in_one_go, run_in_two


def hosted(config: Config, **more: Any) -> Config:
    return config.replace({"mesh.hosts": 2, **more})


@pytest.mark.parametrize(
    ("workers", "model", "case", "cover"),
    [(4, "gcn", "directed-weighted", "on"), (4, "sage", "sparse", "off"), (3, "gat", "plain", "off")],
)
def test_workers_equal_the_dense_reference(on_workers, workers, model, case, cover):
    config = hosted(make_config(model), **{"wire.cover": cover})
    compare_dense(on_workers(workers, train_here, case, "random", config), case, config)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["metis", "random"])
@pytest.mark.parametrize("model", ["gcn", "sage"])
@pytest.mark.parametrize("case", ["plain", "multi-label", "sparse", "directed", "directed-weighted"])
@pytest.mark.parametrize(("workers", "hosts", "cover"), [(3, 2, "on"), (4, 2, "off"), (4, 2, "on"), (4, 3, "off")])
def test_every_graph_and_cut(on_workers, workers, hosts, cover, model, method, case):
    config = make_config(model).replace({"mesh.hosts": hosts, "wire.cover": cover})
    compare_dense(on_workers(workers, train_here, case, method, config), case, config)


def with_and_without(rank: int, settings: dict[str, Any], method: str) -> list[dict[str, Any]]:
    """The epochs of this worker on two machines and on one, in pieces of few rows."""
    config = wire_case.make_config(settings)
    return [wire_case.train_here(rank, one, method) for one in (hosted(config), config)]


def same(results: list[list[dict[str, Any]]]) -> None:
    for on, off in results:
        words = difference(on["epochs"], off["epochs"], 1e-4)
        assert not words, words
    assert sum(sum(on["sent"]) for on, _ in results) < 0.7 * sum(sum(off["sent"]) for _, off in results)
    assert all(sum(on["local"]) and not sum(off["local"]) for on, off in results)


# Gradients that are added up before they are coded are other ones: here they travel in float32, rows in few bits.
WIRES = {
    "deep": {"model.name": "gcnii", "model.layers": 4},
    "late": {"freshness.mode": "delayed", "freshness.smoothing": 0.5, "freshness.sync_every": 3},
    "one bit": {"rate.bits": 1, "rate.backward_bits": 32},
    "changes": {"rate.bits": 1, "rate.backward_bits": 32, "rate.code": "levels", "rate.decay": 0.9},
    "columns of sums": {"model.name": "resgcn", "rate.ratio": 3.0, "rate.rescale": True, "wire.cover": "on"},
    "features in every epoch": {"rate.resend_input": True, "rate.ratio": 2.0},
    "first layer at home": {"wire.first_layer": "local"},
}


@pytest.mark.parametrize("settings", WIRES.values(), ids=WIRES)
def test_other_wires_give_what_they_give_on_one_machine(on_workers, settings):
    same(on_workers(4, with_and_without, settings, "random"))


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("settings", WIRES.values(), ids=WIRES)
def test_every_model_and_wire(on_workers, settings, model):
    kind = MODELS[model]
    if settings.get("rate.resend_input") and not kind.sums_input:
        pytest.skip("the model does not sum its input")
    if settings.get("wire.cover") and not kind.can_sample:
        pytest.skip("the model weighs every row by its own score")
    if settings.get("wire.first_layer") and not (kind.sums_input or not kind.aggregates_input):
        pytest.skip("the model weighs its neighbours anew in every epoch")
    same(on_workers(4, with_and_without, settings | {"model.name": model}, "random"))


def rows_between(shards: list[Shard], hosts: int) -> tuple[int, int, int, int, int]:
    """Slow and obvious: rows (and messages) between machines, within one, and handed on."""
    machine = Machines.split(len(shards), hosts).of
    readers: dict[tuple[int, int], list[int]] = {}
    within, pairs = 0, set()
    for shard in shards:
        owners = [owner for owner, count in enumerate(shard.recv_counts) for _ in range(count)]
        for owner, row in zip(owners, shard.halo_ids.tolist(), strict=True):
            if machine[owner] == machine[shard.rank]:
                within += 1
                pairs.add((owner, shard.rank))
            else:
                readers.setdefault((row, machine[shard.rank]), []).append(shard.rank)
    return len(readers), within, sum(len(found) - 1 for found in readers.values()), len(pairs), len(shards)


@pytest.mark.parametrize(("bits", "workers"), [(4, 4)])
def test_bytes_follow_the_formula(on_workers, bits, workers):
    config = hosted(wire_case.make_config({"rate.bits": bits}))
    results = on_workers(workers, wire_case.train_here, config)
    across, within, handed, pairs, _ = rows_between(cut_graph(wire_case.make_graph(), workers), 2)
    columns = (wire_case.HIDDEN, wire_case.CLASSES)
    row = sum(-(-k * bits // 8) + 4 for k in columns)
    # Every worker gets rows of both workers of the other machine, and hands some on to the one beside it.
    messages = 2 * workers
    for epoch in range(wire_case.EPOCHS):
        assert wire_case.bytes_sent(results, epoch) == 2 * across * row + 4 * HEADER_BYTES * messages
        local = 2 * within * row + handed * (row + 4 * sum(columns)) + 4 * HEADER_BYTES * (pairs + workers)
        assert sum(result["local"][epoch] for result in results) == local


def inductive_here(rank: int, hosts: int) -> dict[str, Any]:
    """Train on the training nodes; logits are those of the whole graph."""
    config = make_config("sage").replace({"task.inductive": True, "mesh.hosts": hosts, "epochs": 3})
    graph, transport = make_graph("plain"), transport_for(config)
    whole = cut_graph(graph, transport.size)[rank]
    train = cut_graph(graph.subgraph(graph.train_mask), transport.size)[rank]
    view = GraphParallel(train, whole, config, transport)
    return train_epochs(Trainer(view, config, transport, Path(tempfile.mkdtemp())), 3)


def test_inductive_training(on_workers):
    for on, off in zip(on_workers(4, inductive_here, 2), on_workers(4, inductive_here, 1), strict=True):
        words = difference(on["epochs"], off["epochs"], 1e-4)
        assert not words, words


LATE = {"rate.bits": 1, "freshness.mode": "delayed", "freshness.smoothing": 0.5, "epochs": 8, "eval.every": 2}


def trainer_of(rank: int, run: str, hosts: int = 2) -> Trainer:
    config = make_config("gcn").replace(LATE | {"mesh.hosts": hosts})
    transport = transport_for(config)
    shard = cut_graph(make_graph("plain"), transport.size)[rank]
    return Trainer(GraphParallel(shard, shard, config, transport), config, transport, Path(run))


def straight_here(rank: int, run: str) -> dict[str, Any]:
    return run_in_one_go(trainer_of(rank, run))


def interrupted_here(rank: int, run: str) -> tuple[str, dict[str, Any]]:
    return run_in_two(partial(trainer_of, rank, run), 5, asked=rank == 0)


def moved_here(rank: int, run: str) -> str:
    """How the run in ``run`` goes on with all workers on one machine."""
    trainer = trainer_of(rank, run, hosts=1)
    trainer.resume()
    return trainer.recut


def test_a_late_one_bit_run_resumes_exactly_and_may_move(on_workers, tmp_path):
    straight = on_workers(4, straight_here, str(tmp_path / "one"))
    for want, (status, got) in zip(straight, on_workers(4, interrupted_here, str(tmp_path / "two")), strict=True):
        assert status == "stopped"
        assert_same(got, want)
    assert set(on_workers(4, moved_here, str(tmp_path / "two"))) == {
        "the machines of the workers were [0, 0, 1, 1], now they are None"
    }
