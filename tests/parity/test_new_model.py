"""A new model is one file and its registration: SGC, written here, runs under all recipes and in stages."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from halowire.graph import block_model
from halowire.layers import MODELS, Activation, Entry, Layer, Model, Shape, Work, register, symmetric_sum
from halowire.layers.entry import Projection
from halowire.layers.model import Linear
from halowire.partitioning import cut, partition
from halowire.training import (
    RECIPES,
    Config,
    GraphParallel,
    Situation,
    Staged,
    Trainer,
    mesh_of,
    pipelined,
    recipe_config,
    refuse,
)
from halowire.wire import Transport
from tests.support.reference import dense_adjacency

NODES, FEATURES, CLASSES, LAYERS, EPOCHS = 200, 12, 4, 4, 4


# What the file of a new model holds.


class Hop(Layer):
    """``u' = A u``: nothing is learnt, activated or dropped."""

    def __init__(self, number: int, width: int) -> None:
        super().__init__(number, Activation(None, None, 0.0, number, relu=False), width, width)

    @property
    def finish_parameters(self) -> list[nn.Parameter]:
        return []

    def finish(self, kept, out: Tensor) -> None:
        out.copy_(kept.g)

    def finish_back(self, grad: Tensor, g_grad: Tensor) -> None:
        g_grad.copy_(grad)

    def finish_weights(self, kept, grad: Tensor, g_grad: Tensor, initial_grad: Tensor | None) -> None:
        return

    @property
    def work(self) -> Work:
        return Work(sums=2 * self.width)


class SGC(Model):
    """SGC (Wu et al. 2019): ``logits = A^L x W^T + A^L b``; as ``A`` is linear, it is applied to ``x W^T + b``."""

    aggregates_input = False

    def build(self, seeds: torch.Generator) -> None:
        self.map = Linear(self.shape.in_channels, self.shape.out_channels, seeds)
        self.blocks = nn.ModuleList(nn.Module() for _ in range(self.shape.num_layers))

    @staticmethod
    def aggregation(shard, exchange):
        return symmetric_sum(shard, exchange)

    def make_entry(self) -> Entry:
        return Projection(self.map.weight, self.map.bias)

    def make_layer(self, block: int, undropped: bool) -> Layer:
        return Hop(block + 1, self.shape.out_channels)

    @property
    def hidden_width(self) -> int:
        return self.shape.out_channels

    @classmethod
    def sent_widths(cls, shape: Shape) -> list[int]:
        return [shape.out_channels] * shape.num_layers


# The tests.


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setitem(MODELS, "sgc", SGC)


def config_of(recipe: str, **settings: object) -> Config:
    flat = {"model.name": "sgc", "model.layers": LAYERS, "epochs": EPOCHS, "seed": 3, "optim.lr": 0.1}
    return recipe_config(recipe).replace(flat | {name.replace("__", "."): value for name, value in settings.items()})


def train_here(rank: int, config: Config) -> dict[str, object]:
    MODELS.setdefault("sgc", SGC)
    graph, transport = block_model(NODES, 1600, FEATURES, CLASSES, seed=3), Transport()
    mesh = mesh_of(config, transport.size)
    refuse(config, Situation(mesh))
    shard = cut(graph, partition(graph, mesh.parts, method="random", seed=4))[mesh.place(rank)[1]]
    train = shard.isolated() if config.freshness.mode == "never" else shard
    if pipelined(config, mesh):
        runner = Staged(train, shard, config, mesh, transport)
        last = runner.seat.last
    else:
        runner, last = GraphParallel(train, shard, config, transport), True
    trainer = Trainer(runner, config, transport, Path(tempfile.mkdtemp()))
    summary = trainer.run()
    weights = trainer.runner.model.state_dict() if runner.parameters else {}
    return {
        "rows": runner.shard.rows.numpy() if last else np.empty(0, dtype=np.int64),
        "logits": trainer.logits().numpy(),
        "weights": {name: value.numpy().copy() for name, value in weights.items()},
        "status": summary["status"],
    }


def reference(config: Config) -> np.ndarray:
    """Logits after training, from dense matrices."""
    graph = block_model(NODES, 1600, FEATURES, CLASSES, seed=3)
    power = torch.linalg.matrix_power(dense_adjacency(graph, "symmetric"), LAYERS)
    model = SGC(Shape(FEATURES, config.model.hidden, CLASSES, LAYERS), config.seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        logits = power @ (graph.x @ model.map.weight.T + model.map.bias)
        torch.nn.functional.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask]).backward()
        optimiser.step()
    with torch.no_grad():
        return (power @ (graph.x @ model.map.weight.T + model.map.bias)).numpy()


def joined(results: list[dict[str, object]]) -> np.ndarray:
    rows = np.concatenate([result["rows"] for result in results])
    logits = np.concatenate([result["logits"] for result in results if len(result["rows"])])
    assert np.array_equal(np.sort(rows), np.arange(NODES))
    out = np.empty_like(logits)
    out[rows] = logits
    return out


@pytest.mark.parametrize(
    ("workers", "settings"),
    [
        (1, {}), (3, {}), (2, {"mesh__stages": 2, "mesh__chunks": 1}),
        (4, {"mesh__stages": 2, "mesh__chunks": 1}), (4, {"mesh__stages": 4, "mesh__chunks": 1}),
    ],
)  # fmt: skip
def test_it_equals_the_dense_reference(on_workers, known, workers, settings):
    config = config_of("exact", **settings)
    got, want = joined(on_workers(workers, train_here, config)), reference(config)
    assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max()


@pytest.mark.parametrize("recipe", RECIPES)
def test_it_runs_under_every_recipe(on_workers, known, recipe):
    results = on_workers(4 if recipe == "hybrid" else 2, train_here, config_of(recipe))
    assert all(result["status"] == "finished" for result in results)
    assert np.isfinite(joined(results)).all()


def test_registration_is_a_decorator(monkeypatch):
    monkeypatch.setattr("halowire.layers.model.MODELS", dict(MODELS))
    assert register("sgc")(SGC) is SGC
