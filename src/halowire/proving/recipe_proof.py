"""Every recipe on a device against the CPU: the loss and all gradients of two epochs, and how often the host waits."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from halowire.errors import InputError
from halowire.graph import block_model
from halowire.layers import MODELS
from halowire.partitioning import Shard, cut, partition
from halowire.proving.finding import Finding
from halowire.proving.subject import Subject
from halowire.training import (
    EXTRAS,
    Config,
    GraphParallel,
    Hooks,
    Runner,
    Situation,
    Staged,
    Trainer,
    mesh_of,
    pipelined,
    recipe_config,
    refuse,
    trained_part,
)
from halowire.wire import Transport

NODES, EDGES, FEATURES, CLASSES = 400, 4000, 24, 5
LAYERS = 3
SMALL = {"model.hidden": 32, "epochs": 4, "eval.every": 4, "checkpoint.every": 0, "seed": 11}
EPOCHS = 2
"""Epochs that are compared: the second one uses rows of the first where they travel late, or as changes."""
ROUNDING = 1e-4
"""How far gradients may be apart where float32 rows travel, of the largest one."""
FLIPS = 3e-2
"""The same where codes travel: a value between two codes may fall to either side when its last bit differs."""
WAITING = ("exact", "sylvie-a", "halowire", "halowire-late")
"""Recipes whose host waits are counted: plain messages, late ones, changes, and late changes that are corrected."""
MOST_WAITS = 3


def prove_recipes(transport: Transport, subject: Subject) -> list[Finding]:
    """All recipes that so many workers can run, each with one of the library's models in turn.

    All workers call this together.
    """
    found = []
    for number, recipe in enumerate(subject.recipes):
        config = small_run(recipe, number, transport.size)
        if config is None:
            continue
        there, here = (gradients(transport, config, where) for where in (subject.device, torch.device("cpu")))
        coded = config.rate.bits < 32
        apart = max(_apart(*passes) for passes in zip(there, here, strict=True))
        found.append(Finding(f"{recipe}, {config.model.name}", apart, FLIPS if coded else ROUNDING))
    return found


def small_run(recipe: str, number: int, workers: int) -> Config | None:
    """The settings of a small run; the model is one that the recipe takes, another one for every ``number``.

    A recipe that splits the layers over the workers gets a layer for each of them. None where no model can run with the
    recipe on so many workers, as a hybrid of one stage.
    """
    names = list(MODELS)
    split = recipe_config(recipe).mesh.stages != 1
    small = SMALL | {"model.layers": max(LAYERS, workers) if split else LAYERS}
    for name in names[number % len(names) :] + names:
        config = recipe_config(recipe).replace({"model.name": name} | small)
        try:
            refuse(config, Situation(mesh_of(config, workers)))
        except InputError:
            continue
        return config
    return None


def gradients(transport: Transport, config: Config, device: torch.device) -> list[list[Tensor]]:
    """Of every epoch the loss and the gradient of each parameter of this worker, on the CPU; no step is taken."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(small_runner(transport, config, device), config, transport, Path(folder))
        for epoch in range(EPOCHS):
            loss = trainer.forward_backward(epoch)
            mine = [loss, 0.0, 0.0, *trainer.exchange.take_change()]
            sums = trainer.flat.reduce([*mine, *[0.0] * (EXTRAS - len(mine))], epoch)
            trainer.steer(sums[0], 1.0, sums[3], sums[4])
            grads = [parameter.grad for parameter in trainer.parameters]
            found.append([torch.tensor(sums[:1]), *(grad.cpu().clone() for grad in grads if grad is not None)])
        trainer.settle()
    return found


def small_runner(transport: Transport, config: Config, device: torch.device) -> Runner:
    """This worker's runner on its shard of a small graph."""
    mesh = mesh_of(config, transport.size)
    whole = small_shards(mesh.parts)[mesh.place(transport.rank)[1]]
    train = trained_part(whole, config)
    if pipelined(config, mesh):
        return Staged(train, whole, config, mesh, transport, device=device)
    return GraphParallel(train, whole, config, transport, device)


def small_shards(parts: int) -> list[Shard]:
    """A small graph, cut at random, so that most rows travel."""
    graph = block_model(NODES, EDGES, FEATURES, CLASSES, seed=3)
    return cut(graph, partition(graph, parts, method="random", seed=4))


def count_waits(transport: Transport, subject: Subject) -> list[Finding]:
    """How often the host waits in an epoch of some recipes: the largest number of all epochs but the first.

    Where rows travel through the host's memory, every copy there is waited for too.
    """
    found = []
    for recipe in (name for name in WAITING if name in subject.recipes):
        config = small_run(recipe, 0, transport.size)
        assert config is not None, "recipes of graph parallelism run on any number of workers"
        before = transport.host_copies
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(small_runner(transport, config, subject.device), config, transport, Path(folder))
            with subject.watch() as watch:
                trainer.run(Hooks(watch, keep=False))
        copies = math.ceil((transport.host_copies - before) / config.epochs)
        # A copy that one epoch asks for may be waited for, in a thread of its own, in the next one.
        found.append(Finding(recipe, max(watch.per_epoch[1:]), MOST_WAITS + 2 * copies))
    return found


def _apart(there: list[Tensor], here: list[Tensor]) -> float:
    """The largest difference in a tensor, of the tensor's largest value; infinite where a value is not finite.

    The first tensor is the loss. A gradient that is nothing but rounding is measured by a hundredth of the largest one.
    """
    if not all(value.isfinite().all() for value in (*there, *here)):
        return float("inf")
    sizes = [float(value.abs().max()) for value in here]
    least = max(1e-2 * max(sizes[1:], default=0.0), 1e-30)
    pairs = zip(there, here, sizes, strict=True)
    return max(float((a - b).abs().max()) / max(size, least) for a, b, size in pairs)
