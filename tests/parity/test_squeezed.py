"""What is sent once arrives exactly, deflated or not: both runs are the same bit for bit, and one sends fewer bytes."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from halowire.events import SETUP
from halowire.graph import Graph, block_model
from halowire.partitioning import cut, partition
from halowire.training import GraphParallel, Trainer, recipe_config
from halowire.wire import Transport

SETTINGS: dict[str, Any] = {"epochs": 3, "model.hidden": 16, "eval.every": 3}


def make_graph() -> Graph:
    """Features of a few different numbers, most of them zero."""
    graph = block_model(300, 3000, 60, 4, seed=3)
    return replace(graph, x=(graph.x > 1.2).float() * 2)


def trained(rank: int, recipe: str, squeeze: str) -> tuple[dict[str, Tensor], int]:
    """The weights after training, and the bytes that this worker sent before it."""
    transport, graph = Transport(), make_graph()
    shard = cut(graph, partition(graph, transport.size, "random", seed=1))[rank]
    config = recipe_config(recipe).replace(SETTINGS | {"wire.squeeze": squeeze})
    runner = GraphParallel(shard, shard, config, transport)
    Trainer(runner, config, transport, Path(tempfile.mkdtemp())).run()
    transport.settle()
    return runner.model.state_dict(), transport.ledger.totals[SETUP]


@pytest.mark.parametrize("recipe", ["halowire", "exact"])
def test_squeezed_rows_train_the_same_model_in_fewer_bytes(on_workers, recipe):
    plain, squeezed = (on_workers(3, trained, recipe, squeeze) for squeeze in ("off", "on"))
    for (weights, before), (same, after) in zip(plain, squeezed, strict=True):
        assert weights.keys() == same.keys()
        assert all(torch.equal(weights[name], same[name]) for name in weights)
        assert after < before
