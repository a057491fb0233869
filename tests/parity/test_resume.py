"""A resumed run ends exactly like the uninterrupted one, bit for bit; inductive training sees training nodes only."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from halowire.errors import InputError
from halowire.events import read_events
from halowire.graph import block_model
from halowire.partitioning import cut, partition, read_shard, write_shards
from halowire.training import Config, GraphParallel, Hooks, Silent, Trainer
from halowire.training.model_setup import build_model
from halowire.training.recipes import AS_PUBLISHED
from halowire.wire import Transport
from tests.support.epochs import assert_close, train_epochs
from tests.support.reference import Reference
from tests.support.resumed import assert_same, run_in_one_go, run_in_two
from tests.support.wire_reference import base_bits

SETTINGS = {
    "model.hidden": 16,
    "epochs": 12,
    "eval.every": 2,
    "checkpoint.every": 5,
    "seed": 3,
    "optim.schedule": "cosine",
    **AS_PUBLISHED,
}


def trainer_of(rank: int, run: str, settings: dict[str, object]) -> Trainer:
    graph = block_model(200, 1600, 8, 4, seed=6)
    transport = Transport()
    shard = cut(graph, partition(graph, transport.size, method="random", seed=1))[rank]
    config = Config().replace(SETTINGS | settings)
    view = GraphParallel(shard, shard, config, transport)
    return Trainer(view, config, transport, Path(run))


def straight_here(rank: int, run: str) -> dict[str, object]:
    return run_in_one_go(trainer_of(rank, run, {}))


def interrupted_here(rank: int, run: str, epochs: int) -> tuple[str, dict[str, object]]:
    """Only rank 0 is asked to stop."""
    return run_in_two(partial(trainer_of, rank, run, {}), epochs, asked=rank == 0)


def killed_here(rank: int, run: str) -> dict[str, object]:
    """Die in epoch 8 without a word; the checkpoint of epoch 5 is the newest."""
    first = trainer_of(rank, run, {})

    def die() -> bool:
        if first.progress.epoch == 8:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        first.run(Hooks(Silent(), should_stop=die))
    second = trainer_of(rank, run, {})
    second.resume()
    assert second.progress.epoch == 5
    return run_in_one_go(second)


@pytest.mark.parametrize("epochs", [6, 7], ids=["at an evaluation", "between evaluations"])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_ends_like_the_straight_one(on_workers, tmp_path, workers, epochs):
    straight = on_workers(workers, straight_here, str(tmp_path / "a"))
    for rank, (status, got) in enumerate(on_workers(workers, interrupted_here, str(tmp_path / "b"), epochs)):
        assert status == "stopped"
        assert_same(got, straight[rank])
        for key in ("wire_bytes_per_epoch", "gradient_bytes_per_epoch"):
            assert got["summary"][key] == straight[rank]["summary"][key]
        events = read_events(tmp_path / "b" / f"events-{rank}.jsonl")
        assert [e["epoch"] for e in events if e["event"] == "epoch"] == list(range(12))


def test_a_killed_run_ends_like_the_straight_one(on_workers, tmp_path):
    straight = on_workers(2, straight_here, str(tmp_path / "a"))
    for rank, got in enumerate(on_workers(2, killed_here, str(tmp_path / "b"))):
        assert_same(got, straight[rank])


WIRES = {
    "sylvie-a": {"freshness.mode": "delayed", "rate.bits": 1},
    "bounded": {"freshness.mode": "delayed", "rate.bits": 4, "freshness.sync_every": 3},
    "adaptive": {"freshness.mode": "delayed", "freshness.threshold": 0.3},
    "bits by degree": {"freshness.mode": "delayed", "rate.bits": 1, "rate.nodes": "degree"},
    "base bit by loss": {"rate.bits": 2, "rate.base": "loss", "optim.lr": 0.05},
    "sylvie-3d": {
        "rate.bits": 2,
        "rate.nodes": "degree",
        "rate.base": "loss",
        "freshness.mode": "adaptive",
        "epochs": 24,
        "model.dropout": 0.0,
    },
    "delta": {"rate.bits": 1, "rate.code": "levels", "rate.decay": 0.8},
    "smoothed": {"freshness.mode": "delayed", "freshness.smoothing": 0.9},
    "weights in 1 bit": {"rate.weights": 1},
    "weights in 8 bits": {"rate.weights": 8, "rate.bits": 1},
    "delta, delayed": {"rate.bits": 1, "rate.decay": 0.8, "freshness.mode": "delayed"},
    "delta, gain": {"rate.bits": 1, "rate.decay": 1.0, "rate.gain": 0.2, "rate.backward_code": "clipped"},
    "late rows": {"freshness.mode": "late-rows", "rate.bits": 1, "rate.code": "levels", "rate.decay": 0.8},
}


def wire_here(rank: int, run: str, settings: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    straight = trainer_of(rank, f"{run}/a", settings)
    want = run_in_one_go(straight)
    _, got = run_in_two(partial(trainer_of, rank, f"{run}/b", settings), settings.get("epochs", 12) // 2 + 1)
    base = straight.exchange.policy.base
    assert base is None or len(set(base.history)) > 1, f"the case must change the bits to show anything: {base.history}"
    return want, got


@pytest.mark.parametrize("name", WIRES)
def test_the_wires_memory_survives_a_restart(on_workers, tmp_path, name):
    for want, got in on_workers(2, wire_here, str(tmp_path), WIRES[name]):
        assert_same(got, want)


def events_here(rank: int, run: str, settings: dict[str, object]) -> None:
    trainer_of(rank, run, settings | {"epochs": 30}).run()


@pytest.mark.parametrize("judged", ["loss", "loss-per-second"])
def test_the_losses_decide_the_bits_alike_on_every_worker(on_workers, tmp_path, judged):
    on_workers(2, events_here, str(tmp_path), WIRES["sylvie-3d"] | {"rate.base": judged})
    files = [read_events(tmp_path / f"events-{rank}.jsonl") for rank in range(2)]
    records = [[event for event in events if event["event"] == "epoch"] for events in files]
    told = [[(event["loss"], event["base_bits"], event["synchronous"]) for event in events] for events in records]
    assert told[0] == told[1]
    if judged == "loss":
        losses = [event["loss"] for event in records[0]]
        want = [base_bits(losses[:epoch], 2) for epoch in range(30)]
        assert [(bits, synchronous) for _, bits, synchronous in told[0]] == want
        assert len(set(want)) > 1, "the case must change the bits to show anything"


def changed_here(rank: int, run: str, before: dict[str, object], after: dict[str, object]) -> str:
    trainer_of(rank, run, before).run()
    try:
        trainer_of(rank, run, before | after).resume()
    except InputError as error:
        return str(error)
    return ""


SHORT = {"epochs": 2, "optim.schedule": "constant"}
LONGER = {
    "rate": {"rate.schedule": "linear", "rate.max_ratio": 4.0},
    "rate, exponential": {"rate.schedule": "exponential", "rate.max_ratio": 4.0},
    "learning rate": {"optim.schedule": "cosine"},
}


def test_resuming_with_other_settings_is_refused(on_workers, tmp_path):
    told = on_workers(1, changed_here, str(tmp_path), SHORT, {"model.dropout": 0.1})[0]
    assert "resume with the same settings" in told


@pytest.mark.parametrize("case", LONGER)
def test_a_run_whose_schedule_spans_it_cannot_be_made_longer(on_workers, tmp_path, case):
    told = on_workers(1, changed_here, str(tmp_path), SHORT | LONGER[case], {"epochs": 4})[0]
    assert "had epochs = 2, now it is 4" in told


def test_a_run_without_such_a_schedule_can(on_workers, tmp_path):
    assert on_workers(1, changed_here, str(tmp_path), SHORT, {"epochs": 4})[0] == ""


def inductive_here(rank: int, shards: str) -> dict[str, object]:
    transport = Transport()
    config = Config().replace(INDUCTIVE)
    train, whole = read_shard(shards, rank, train=True), read_shard(shards, rank)
    trainer = Trainer(GraphParallel(train, whole, config, transport), config, transport, Path(tempfile.mkdtemp()))
    assert trainer.logits().shape[0] == whole.num_owned
    return train_epochs(trainer, 3)


INDUCTIVE = {"model.hidden": 16, "task.inductive": True, "seed": 2}


@pytest.mark.parametrize("workers", [1, 3])
def test_inductive_training_equals_training_on_the_subgraph(on_workers, tmp_path, workers):
    graph = block_model(200, 1600, 8, 4, seed=6)
    shards = write_shards(graph, partition(graph, workers, method="random"), tmp_path / "shards", inductive=True)
    results = on_workers(workers, inductive_here, str(shards))
    weights = build_model(Config().replace(INDUCTIVE).model, graph.num_features, graph.num_classes, 2).state_dict()
    reference = Reference(graph.subgraph(graph.train_mask), "sage", weights, 0.5, 2, 0.01)
    for epoch in range(3):
        loss, grads = reference.epoch(epoch)
        for record in (result["epochs"][epoch] for result in results):
            assert_close("loss", record["loss"], np.array([loss]))
            for name, want in grads.items():
                assert_close(f"{name} of epoch {epoch}", record[name], want.numpy())
