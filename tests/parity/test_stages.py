"""One chunk, any mesh: logits, loss and every weight gradient equal the dense reference, element by element."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from halowire.exchange import Transport
from halowire.partition import cut, partition
from halowire.train.config import Config
from halowire.train.loop import EXTRAS, Trainer
from halowire.train.stages import Pipeline, mesh_of
from halowire.train.view import build_model
from tests.parity.deep_reference import DeepReference
from tests.parity.test_exact import CLASSES, FEATURES, NODES, assert_close, make_graph

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
    runner = Pipeline(shard, shard, config, mesh, transport)
    trainer = Trainer(runner, None, config, transport, Path(tempfile.mkdtemp()))
    record: dict[str, object] = {"rows": runner.shard.rows.numpy(), "epochs": [], "last": runner.seat.last}
    record["chunks"] = runner.engine.train.chunks.numbers().numpy()
    for epoch in range(EPOCHS):
        loss = trainer.forward_backward(epoch)
        extras = [float(loss)] + [0.0] * (EXTRAS - 1)
        total = trainer.flat.reduce(extras)[0]
        grads = {name: p.grad.numpy().copy() for name, p in runner.parameters.items()}
        trainer.optimiser.step()
        record["epochs"].append((total, grads, trainer.logits().numpy().copy()))
    transport.settle()
    runner.peers.settle()
    return record


def compare(results: list[dict[str, object]], case: str, config: Config) -> None:
    model = build_model(config.model, FEATURES, CLASSES, config.seed)
    reference = DeepReference(make_graph(case), config, dict(model.named_parameters()))
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


def test_gcnii_with_a_norm_and_resgcn_without(on_workers):
    for model, norm in (("gcnii", "layer"), ("resgcn", "none")):
        config = make_config(model, 2, model__norm=norm)
        compare(on_workers(2, train_here, "plain", config), "plain", config)
