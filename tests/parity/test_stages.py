"""One chunk, any mesh: logits, loss and every weight gradient equal the dense reference, element by element."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from halowire.partitioning import cut, partition, read_shard, write_shards
from halowire.training import EXTRAS, Config, GraphParallel, Staged, Trainer, mesh_of, policy_of
from halowire.training.model_setup import build_model
from halowire.wire import Transport
from tests.parity.test_exact import CLASSES, FEATURES, NODES, assert_close, make_graph
from tests.support.deep_reference import DeepReference
from tests.support.reference import dropout_factor
from tests.support.wire_reference import DenseWire

EPOCHS = 3


def make_config(model: str, stages: int, **settings: object) -> Config:
    flat = {key.replace("__", "."): value for key, value in settings.items()}
    base = {
        "model.name": model, "model.hidden": 16, "model.layers": 5, "seed": 11, "mesh.stages": stages, "mesh.chunks": 1
    }  # fmt: skip
    return Config().replace(base | flat)


def train_here(rank: int, case: str, config: Config) -> dict[str, object]:
    """One worker's part: its rows, and loss, gradients of its parameters and logits of every epoch."""
    graph, transport = make_graph(case), Transport()
    mesh = mesh_of(config, transport.size)
    shard = cut(graph, partition(graph, mesh.parts, method="random", seed=4))[rank % mesh.parts]
    runner = Staged(shard, shard, config, mesh, transport)
    trainer = Trainer(runner, config, transport, Path(tempfile.mkdtemp()))
    record: dict[str, object] = {"rows": runner.shard.rows.numpy(), "epochs": [], "last": runner.seat.last}
    record["chunks"] = runner.pipeline.train.chunks.numbers().numpy()
    for epoch in range(EPOCHS):
        loss = trainer.forward_backward(epoch)
        extras = [float(loss)] + [0.0] * (EXTRAS - 1)
        total = trainer.flat.reduce(extras)[0]
        trainer.flat.clip(config.optim.clip, runner.line)
        grads = {name: p.grad.numpy().copy() for name, p in runner.parameters.items()}
        trainer.optimiser.step()
        record["epochs"].append((total, grads, trainer.logits().numpy().copy()))
    transport.settle()
    runner.peers.settle()
    return record


def compare(
    results: list[dict[str, object]], case: str, config: Config, kind: type[DeepReference] = DeepReference
) -> None:
    model = build_model(config.model, FEATURES, CLASSES, config.seed)
    reference = kind(make_graph(case), config, dict(model.named_parameters()))
    names = set().union(*(result["epochs"][0][1] for result in results))
    assert names == {name for name, _ in model.named_parameters()}
    last = [result for result in results if result["last"]]
    rows = np.concatenate([result["rows"] for result in last])
    assert np.array_equal(np.sort(rows), np.arange(NODES))
    for epoch in range(EPOCHS):
        loss, grads = reference.epoch(epoch)
        with torch.no_grad():
            want = reference.logits(None).numpy()
        got = np.empty_like(want)
        got[rows] = np.concatenate([result["epochs"][epoch][2] for result in last])
        assert_close(f"logits after epoch {epoch}", got, want)
        for result in results:
            assert_close(f"loss of epoch {epoch}", np.array([result["epochs"][epoch][0]]), np.array([loss]))
            for name, grad in result["epochs"][epoch][1].items():
                assert_close(f"gradient of {name} in epoch {epoch}", grad, grads[name].numpy())


@pytest.mark.parametrize("model", ["gcn", "sage", "gcnii", "resgcn"])
@pytest.mark.parametrize(("workers", "stages"), [(1, 1), (2, 2), (4, 4), (4, 2), (2, 1)])
def test_one_chunk_is_exact(on_workers, workers, stages, model):
    config = make_config(model, stages)
    compare(on_workers(workers, train_here, "plain", config), "plain", config)


def boundary_first_here(rank: int, case: str, config: Config) -> dict[str, object]:
    """The same in graph parallelism, boundary rows first."""
    graph, transport = make_graph(case), Transport()
    shard = cut(graph, partition(graph, transport.size, method="random", seed=4))[rank]
    runner = GraphParallel(shard, shard, config, transport)
    trainer = Trainer(runner, config, transport, Path(tempfile.mkdtemp()))
    record: dict[str, object] = {"rows": shard.rows.numpy(), "epochs": [], "last": True}
    for epoch in range(EPOCHS):
        loss = trainer.forward_backward(epoch)
        total = trainer.flat.reduce([float(loss)] + [0.0] * (EXTRAS - 1))[0]
        grads = {name: p.grad.numpy().copy() for name, p in runner.parameters.items()}
        trainer.optimiser.step()
        record["epochs"].append((total, grads, trainer.logits().numpy().copy()))
    transport.settle()
    return record


@pytest.mark.parametrize("model", ["gcn, residual", "sage, residual", "gcnii", "resgcn"])
@pytest.mark.parametrize(("workers", "case"), [(1, "plain"), (2, "plain"), (3, "sparse"), (4, "directed-weighted")])
def test_boundary_first_runs_every_model(on_workers, workers, case, model):
    name, _, residual = model.partition(", ")
    config = make_config(name, 1, model__residual=0.3 if residual else 0.0)
    compare(on_workers(workers, boundary_first_here, case, config), case, config)


@pytest.mark.parametrize("model", ["gcn", "sage", "gcnii", "resgcn"])
@pytest.mark.parametrize("case", ["directed-weighted", "sparse"])
def test_directed_and_sparse(on_workers, case, model):
    config = make_config(model, 2, model__layers=3)
    compare(on_workers(4, train_here, case, config), case, config)


@pytest.mark.parametrize("model", ["gcn", "sage"])
@pytest.mark.parametrize(("workers", "stages"), [(1, 1), (4, 2)])
def test_residual(on_workers, workers, stages, model):
    config = make_config(model, stages, model__residual=0.3, model__norm="none")
    compare(on_workers(workers, train_here, "plain", config), "plain", config)


@pytest.mark.parametrize("model", ["gcnii", "resgcn"])
def test_a_hundred_and_more_layers(on_workers, model):
    config = make_config(model, 4, model__layers=128, model__hidden=8)
    compare(on_workers(4, train_here, "plain", config), "plain", config)


def test_stages_split_by_measured_costs(on_workers):
    config = make_config("sage", 2, mesh__costs="measured")
    compare(on_workers(2, train_here, "plain", config), "plain", config)


class ClippedReference(DeepReference):
    """With gradients of at most the norm that the settings ask for, all parameters together."""

    def step(self) -> dict[str, torch.Tensor]:
        torch.nn.utils.clip_grad_norm_(list(self.weights.values()), self.config.optim.clip)
        return super().step()


def test_the_norm_of_a_clipped_gradient_is_that_of_all_stages(on_workers):
    config = make_config("gcnii", 2, optim__clip=1e-3)
    compare(on_workers(4, train_here, "plain", config), "plain", config, ClippedReference)


def test_gcnii_with_a_norm_and_resgcn_without(on_workers):
    for model, norm in (("gcnii", "layer"), ("resgcn", "none")):
        config = make_config(model, 2, model__norm=norm)
        compare(on_workers(2, train_here, "plain", config), "plain", config)


def inductive_here(rank: int, shards: str, config: Config) -> dict[str, object]:
    transport = Transport()
    mesh = mesh_of(config, transport.size)
    train, whole = (read_shard(shards, rank % mesh.parts, train=train) for train in (True, False))
    runner = Staged(train, whole, config, mesh, transport)
    trainer = Trainer(runner, config, transport, Path(tempfile.mkdtemp()))
    trainer.forward_backward(0)
    trainer.flat.reduce([0.0] * EXTRAS)
    grads = {name: p.grad.numpy().copy() for name, p in runner.parameters.items()}
    trainer.optimiser.step()
    found = {"grads": grads, "logits": trainer.logits().numpy().copy(), "rows": whole.rows.numpy()}
    transport.settle()
    runner.peers.settle()
    return found | {"last": runner.seat.last}


@pytest.mark.parametrize("model", ["sage", "gcnii"])
@pytest.mark.parametrize("empty", [False, True])
def test_inductive_training_sees_training_nodes_only(on_workers, tmp_path, model, empty):
    """Also where one part has no training node at all."""
    config, graph = make_config(model, 2, task__inductive=True), make_graph("plain")
    parts = partition(graph, 2, method="random")
    if empty:
        parts = replace(parts, owner=torch.where(graph.train_mask, 0, parts.owner))
    shards = write_shards(graph, parts, tmp_path / "shards", inductive=True)
    results = on_workers(4, inductive_here, str(shards), config)
    weights = dict(build_model(config.model, FEATURES, CLASSES, config.seed).named_parameters())
    reference = DeepReference(graph.subgraph(graph.train_mask), config, weights)
    _, grads = reference.epoch(0)
    whole = DeepReference(graph, config, reference.weights)
    with torch.no_grad():
        want = whole.logits(None).numpy()
    for result in results:
        for name, got in result["grads"].items():
            assert_close(name, got, grads[name].numpy())
        if result["last"]:
            assert_close("logits", result["logits"], want[result["rows"]])


class WireReference(DeepReference):
    """Graph parallelism over the wire of a policy."""

    def __init__(self, graph, config: Config, weights, owner: torch.Tensor) -> None:
        super().__init__(graph, config, weights)
        self.wire = DenseWire(self.a, owner, graph.ids, policy_of(config, [16] * config.model.layers, 0))

    def logits(self, epoch: int | None) -> torch.Tensor:
        u, ids = self.enter(slice(None)), self.graph.ids
        h0 = u.relu()
        for block in self.blocks:
            v, a = self.before(u, block, epoch, ids)
            undropped = mask = None
            if self.wire.policy.decay is not None:
                undropped = u.relu().detach()
                mask = dropout_factor(self.dropout, self.seed, epoch, block, ids, u.shape[1])
            u = self.after(self.wire.product(a, epoch, block + 1, undropped, mask), v, u, h0, block)
        return self.leave(u, epoch, ids)


WIRES = {
    "1 bit": {"rate.bits": 1},
    "delayed": {"freshness.mode": "delayed", "rate.bits": 8, "freshness.sync_every": 2},
    "delta": {"rate.bits": 4, "rate.decay": 0.8},
    "rows": {"rate.rows": 0.4},
}


@pytest.mark.parametrize("case", WIRES)
def test_deep_models_over_every_wire_of_graph_parallelism(on_workers, case):
    config = make_config("gcnii", 1, model__layers=3).replace(WIRES[case])
    results = on_workers(2, train_here, "plain", config)
    graph = make_graph("plain")
    owner = partition(graph, 2, method="random", seed=4).owner
    weights = dict(build_model(config.model, FEATURES, CLASSES, config.seed).named_parameters())
    reference = WireReference(graph, config, weights, owner)
    for epoch in range(EPOCHS):
        _, grads = reference.epoch(epoch)
        for result in results:
            for name, got in result["epochs"][epoch][1].items():
                want = grads[name].numpy()
                worst, limit = np.abs(got - want).max(), 1e-3 * np.abs(want).max()
                assert worst <= limit, f"{name} in epoch {epoch}: differs by {worst}, allowed {limit}"
