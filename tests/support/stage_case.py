"""Stages, chunks and parts on the graphs of `parity_graphs`, and the references of what they must give."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from halowire.schedules import Chunks, chunk_numbers
from halowire.training import Config, Staged, Trainer, mesh_of
from halowire.training.model_setup import build_model
from halowire.training.recipes import AS_PUBLISHED
from halowire.wire import Transport
from tests.support.chunk_reference import ChunkReference
from tests.support.deep_reference import DeepReference
from tests.support.epochs import Epochs, reference_epochs, train_epochs
from tests.support.parity_graphs import CLASSES, FEATURES, NODES, cut_graph, make_graph
from tests.support.steady import ROUNDINGS, nudged

EPOCHS, HIDDEN, LAYERS = 3, 16, 5


def make_config(model: str, stages: int, **settings: object) -> Config:
    """All rows travel, and in one chunk, unless ``settings`` (with ``__`` for the dot) say more."""
    base = {
        "model.name": model, "model.hidden": HIDDEN, "model.layers": LAYERS, "seed": 11, "epochs": EPOCHS,
        "mesh.stages": stages, "mesh.chunks": 1, **AS_PUBLISHED,
    }  # fmt: skip
    return Config().replace(base | {key.replace("__", "."): value for key, value in settings.items()})


def trainer_of(rank: int, config: Config, run: str | None = None, case: str = "plain") -> Trainer:
    """The trainer of this worker's stage and part."""
    transport = Transport()
    mesh = mesh_of(config, transport.size)
    shard = cut_graph(make_graph(case), mesh.parts)[rank % mesh.parts]
    runner = Staged(shard, shard, config, mesh, transport)
    return Trainer(runner, config, transport, Path(run or tempfile.mkdtemp()))


def train_here(rank: int, case: str, config: Config) -> dict[str, Any]:
    """One worker's part: its rows and their chunks, and loss, logits and gradients of its weights in every epoch."""
    trainer = trainer_of(rank, config, case=case)
    chunks = trainer.runner.pipeline.train.chunks.numbers().numpy()
    return train_epochs(trainer, config.epochs) | {"chunks": chunks}


def first_weights(config: Config, nudge: int = 0, size: float = ROUNDINGS, zeros: bool = True) -> dict[str, Tensor]:
    """The weights that training starts from."""
    model = build_model(config.model, FEATURES, CLASSES, config.seed)
    return nudged(dict(model.named_parameters()), nudge, size, zeros)


def deep_epochs(
    config: Config, nudge: int = 0, case: str = "plain", kind: type[DeepReference] = DeepReference
) -> Epochs:
    """What exact training of the whole graph gives."""
    weights = first_weights(config, nudge, zeros=case != "sparse")
    return reference_epochs(kind(make_graph(case), config, weights), config.epochs)


def chunk_epochs(config: Config, nudge: int = 0, case: str = "plain", parts: int = 1) -> Epochs:
    """What training chunk by chunk gives, with exact halos and links."""
    _, steps = steps_of(config, case, parts)
    weights = first_weights(config, nudge, zeros=case != "sparse")
    reference = ChunkReference(make_graph(case), config, weights, steps)
    return reference_epochs(reference, config.epochs)


def steps_of(config: Config, case: str, parts: int) -> tuple[Tensor, Callable[[int], list[Tensor]]]:
    """The part that owns every node, and the rows that are in work in every step of an epoch, of all parts."""
    shards, count, seed = cut_graph(make_graph(case), parts), config.mesh.chunks, config.seed
    numbers = torch.empty(NODES, dtype=torch.int64)
    owner = torch.empty(NODES, dtype=torch.int64)
    for part in range(parts):
        owner[shards[part].rows] = part
        numbers[shards[part].rows] = chunk_numbers(shards[part], count, seed)
    chunks = [Chunks((0,) * (count + 1), part, seed, config.mesh.shuffle) for part in range(parts)]

    def steps(epoch: int) -> list[Tensor]:
        orders = torch.tensor([each.order(epoch) for each in chunks])
        return [(numbers == orders[owner, step]).nonzero()[:, 0] for step in range(count)]

    return owner, steps
